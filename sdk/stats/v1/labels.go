// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	pb "github.com/drover-project/drover/sdk/internal/pb/stats/v1"
)

// Both sides of a stream remember sets of labels by number, so that each set crosses the
// connection once. A set stays when no value has it any more. Once there are many more sets
// than values, the collector's side forgets all and begins anew.
const (
	spareSets = 1024    // unused sets that a stream may have before it begins anew
	maxSets   = 1 << 18 // sets that a host remembers of a stream
)

// labelsOut is the collector's side of one stream.
type labelsOut struct {
	ids  map[string]uint32
	last uint32
}

// sample converts a sample and tells the sets of labels that are new.
func (l *labelsOut) sample(s Sample) *pb.Sample {
	out := sampleToPB(s)
	if l.ids == nil || len(l.ids) > 2*len(out.GetValues())+spareSets {
		l.ids, l.last, out.ForgetLabelSets = map[string]uint32{}, 0, l.ids != nil
	}
	for _, v := range out.GetValues() {
		if len(v.GetLabels()) == 0 && v.GetTask() == "" {
			continue
		}
		key := setKey(v.GetTask(), v.GetLabels())
		id, known := l.ids[key]
		if !known {
			l.last++
			id = l.last
			l.ids[key] = id
			out.LabelSets = append(out.LabelSets, &pb.LabelSet{Id: id, Labels: v.GetLabels(), Task: v.GetTask()})
		}
		v.LabelSet, v.Labels, v.Task = id, nil, ""
	}
	return out
}

func setKey(task string, labels map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d:%s", len(task), task)
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&b, "%d:%s%d:%s", len(name), name, len(labels[name]), labels[name])
	}
	return b.String()
}

// labelsIn is the host's side of one stream.
type labelsIn struct {
	sets map[uint32]*pb.LabelSet
}

// sample converts a sample. Values whose labels were never sent are dropped, and a problem
// says so: without labels they would be mistaken for other values.
func (l *labelsIn) sample(m *pb.Sample) Sample {
	if l.sets == nil || m.GetForgetLabelSets() {
		l.sets = map[uint32]*pb.LabelSet{}
	}
	for _, s := range m.GetLabelSets() {
		if _, known := l.sets[s.GetId()]; known || len(l.sets) < maxSets {
			l.sets[s.GetId()] = s
		}
	}
	out := sampleFromPB(m)
	lost := 0
	kept := out.Values[:0]
	for i, v := range out.Values {
		if id := m.GetValues()[i].GetLabelSet(); id != 0 {
			set := l.sets[id]
			if set == nil {
				lost++
				continue
			}
			v.Labels, v.Task = set.GetLabels(), set.GetTask()
		}
		kept = append(kept, v)
	}
	out.Values = kept
	if lost > 0 {
		out.Problems = append(out.Problems, fmt.Sprintf("labels: %d values refer to sets of labels that the collector has not told, or to more than %d", lost, maxSets))
	}
	return out
}
