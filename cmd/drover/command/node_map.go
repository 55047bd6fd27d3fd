// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

// nodeFill is how full a node is.
type nodeFill struct {
	ID       string
	Name     string
	Class    string
	Closed   string `json:",omitempty"` // why it takes no allocations
	CPU      int64  // MHz that allocations have
	CPUOf    int64
	Memory   int64 // MB
	MemoryOf int64
	Allocs   int
}

// percent is the share of what is fuller, processor or memory.
func (f *nodeFill) percent() int {
	return max(share(f.CPU, f.CPUOf), share(f.Memory, f.MemoryOf))
}

func share(used, of int64) int {
	if of <= 0 {
		return 0
	}
	return int(used * 100 / of)
}

// cellsPerLine is how many nodes a line of the map shows.
const cellsPerLine = 20

// mapNodes shows the nodes as a picture of how full they are.
func (s *session) mapNodes(ctx context.Context, o *nodeList) error {
	q := o.Query
	q.Params = url.Values{"resources": {"true"}}
	nodes, meta, err := s.client.Nodes(ctx, &q)
	if err != nil {
		return err
	}
	allocs, _, err := s.anyNamespace().Allocations(ctx, &client.Query{
		Filter: `ClientStatus != "complete" and ClientStatus != "failed" and ClientStatus != "lost"`, Params: url.Values{"resources": {"true"}, "task_states": {"false"}},
	})
	if err != nil {
		return err
	}
	fills := fillsOf(nodes, allocs)
	if done, err := s.formatted(fills); done {
		return err
	}
	byClass := map[string][]*nodeFill{}
	for _, f := range fills {
		byClass[f.Class] = append(byClass[f.Class], f)
	}
	for _, class := range slices.Sorted(maps.Keys(byClass)) {
		s.mapClass(class, byClass[class])
	}
	if len(fills) == 0 {
		s.printf("No nodes registered")
		return nil
	}
	s.printf("Each cell is a node by name: per cent of its processor or memory that allocations have, whichever is fuller. -- takes none.")
	o.more(s, meta)
	return nil
}

// fillsOf returns how full the nodes are, ordered by name.
func fillsOf(nodes []*api.NodeListStub, allocs []*model.AllocListStub) []*nodeFill {
	byID := map[string]*nodeFill{}
	out := make([]*nodeFill, 0, len(nodes))
	for _, n := range nodes {
		c := (&model.Node{NodeResources: n.NodeResources, ReservedResources: n.ReservedResources}).Capacity()
		f := &nodeFill{ID: n.ID, Name: n.Name, Class: n.NodeClass, CPUOf: c.CPU, MemoryOf: c.MemoryMB}
		switch {
		case n.Status != model.NodeStatusReady:
			f.Closed = n.Status
		case n.Drain:
			f.Closed = "draining"
		case n.SchedulingEligibility != model.NodeSchedulingEligible:
			f.Closed = n.SchedulingEligibility
		}
		byID[n.ID], out = f, append(out, f)
	}
	for _, a := range allocs {
		if f := byID[a.NodeID]; f != nil && a.AllocatedResources != nil {
			r := a.AllocatedResources.Comparable()
			f.CPU, f.Memory, f.Allocs = f.CPU+r.CPUShares, f.Memory+r.MemoryMB, f.Allocs+1
		}
	}
	slices.SortFunc(out, func(a, b *nodeFill) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return out
}

func (s *session) mapClass(class string, fills []*nodeFill) {
	var sum nodeFill
	for _, f := range fills {
		sum.CPU, sum.CPUOf, sum.Memory, sum.MemoryOf, sum.Allocs = sum.CPU+f.CPU, sum.CPUOf+f.CPUOf, sum.Memory+f.Memory, sum.MemoryOf+f.MemoryOf, sum.Allocs+f.Allocs
	}
	name := "Nodes without class"
	if class != "" {
		name = fmt.Sprintf("Node class %q", class)
	}
	s.title("%s: %d nodes, %d allocations, cpu %d %%, memory %d %%", visible(name), len(fills), sum.Allocs, share(sum.CPU, sum.CPUOf), share(sum.Memory, sum.MemoryOf))
	for cells := range slices.Chunk(fills, cellsPerLine) {
		var line strings.Builder
		for _, f := range cells {
			line.WriteString(s.cell(f))
		}
		s.printf("%s", strings.TrimRight(line.String(), " "))
	}
	s.printf("")
}

// cell shows one node; its colour goes from green to red as the node gets full.
func (s *session) cell(f *nodeFill) string {
	if f.Closed != "" {
		return s.paint("2", " --") + " "
	}
	colours := []string{"48;5;22;97", "48;5;28;97", "48;5;142;30", "48;5;208;30", "48;5;160;97"} // each for 20 %
	p := f.percent()
	return s.paint(colours[min(p/20, len(colours)-1)], fmt.Sprintf("%3d", min(p, 999))) + " "
}
