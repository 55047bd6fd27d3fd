// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/drover-project/drover/core/model"
)

// packFrom is the number of changes from which a server at rest packs them. A compressor
// costs more memory than a few changes hold.
const packFrom = 32

// eventPack is a run of batches in little memory. Jobs, evaluations, allocs and
// deployments consist of many small parts, which lie between garbage and so keep many
// times their own size from being given back to the system.
type eventPack struct {
	last  uint64 // the index of the newest batch
	size  int    // number of changes
	data  []byte // compressed JSON, one packedChange after the other
	plain []any  // the objects of other types, in order
}

// packedChange is a keptChange with its index. At most one of the pointers is set; without
// one the object is the next of the pack's plain objects.
type packedChange struct {
	Index      uint64
	Kind       string
	Gone       bool              `json:",omitempty"`
	Job        *model.Job        `json:",omitempty"`
	Allocation *model.Allocation `json:",omitempty"`
	Evaluation *model.Evaluation `json:",omitempty"`
	Deployment *model.Deployment `json:",omitempty"`
}

// packChanges packs batches, of which there must be one or more.
func packChanges(batches []changeBatch) (*eventPack, error) {
	var out bytes.Buffer
	squeeze, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	to := json.NewEncoder(squeeze)
	p := &eventPack{last: batches[len(batches)-1].index}
	for _, b := range batches {
		for _, c := range b.changes {
			packed := packedChange{Index: b.index, Kind: c.kind, Gone: c.gone}
			switch o := c.object.(type) {
			case *model.Job:
				packed.Job = o
			case *model.Allocation:
				packed.Allocation = o
			case *model.Evaluation:
				packed.Evaluation = o
			case *model.Deployment:
				packed.Deployment = o
			default:
				p.plain = append(p.plain, o)
			}
			if err := to.Encode(&packed); err != nil {
				return nil, fmt.Errorf("pack a change of index %d: %w", b.index, err)
			}
			p.size++
		}
	}
	if err := squeeze.Close(); err != nil {
		return nil, err
	}
	p.data = bytes.Clone(out.Bytes())
	return p, nil
}

// unpack returns the batches of a pack that are newer than an index.
func (p *eventPack) unpack(after uint64) ([]changeBatch, error) {
	from := json.NewDecoder(flate.NewReader(bytes.NewReader(p.data)))
	from.UseNumber() // a large number in a driver's configuration stays as it was written
	var out []changeBatch
	plain := p.plain
	for {
		var c packedChange
		if err := from.Decode(&c); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("unpack the changes up to index %d: %w", p.last, err)
		}
		kept := keptChange{kind: c.Kind, gone: c.Gone}
		switch {
		case c.Job != nil:
			kept.object = c.Job
		case c.Allocation != nil:
			kept.object = c.Allocation
		case c.Evaluation != nil:
			kept.object = c.Evaluation
		case c.Deployment != nil:
			kept.object = c.Deployment
		default:
			kept.object, plain = plain[0], plain[1:]
		}
		if c.Index <= after {
			continue
		}
		if n := len(out); n == 0 || out[n-1].index != c.Index {
			out = append(out, changeBatch{index: c.Index})
		}
		last := &out[len(out)-1]
		last.changes = append(last.changes, kept)
	}
}
