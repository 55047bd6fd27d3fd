// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"maps"
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// UpdateAllocsFromClient applies the news in nodes' reports. It skips what the state
// already contains, and allocs that no longer exist.
type UpdateAllocsFromClient struct {
	At      int64 // Unix ns, the servers' time
	Reports []*model.AllocReport
	Evals   []*model.Evaluation
}

func (*UpdateAllocsFromClient) kind() byte { return kindUpdateAllocsFromClient }

func (c *UpdateAllocsFromClient) apply(tx *state.Tx) error {
	for _, r := range c.Reports {
		if r == nil {
			continue
		}
		if err := tx.UpdateAllocFromClient(r, c.At); err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	}
	upsertEvals(tx, c.Evals)
	return nil
}

// packedReports is the stored form: Reports are encoded by reportWriter.
type packedReports struct {
	At      int64
	Reports []byte
	Evals   []*model.Evaluation
}

func (c *UpdateAllocsFromClient) packedForm() any { return &packedReports{} }

func (c *UpdateAllocsFromClient) pack() (any, error) {
	data, err := packReports(c.Reports, c.At)
	return &packedReports{At: c.At, Reports: data, Evals: c.Evals}, err
}

func (c *UpdateAllocsFromClient) unpack(form any) error {
	f := form.(*packedReports)
	c.At, c.Evals = f.At, f.Evals
	var err error
	c.Reports, err = unpackReports(f.Reports, f.At)
	return err
}

// UpdateDesiredTransitions stores requests of operators and controllers to the
// scheduler, by alloc. It skips allocs that no longer exist.
type UpdateDesiredTransitions struct {
	Transitions map[string]model.DesiredTransition
	Evals       []*model.Evaluation
}

func (*UpdateDesiredTransitions) kind() byte { return kindUpdateDesired }

func (c *UpdateDesiredTransitions) apply(tx *state.Tx) error {
	for _, id := range slices.Sorted(maps.Keys(c.Transitions)) {
		if err := tx.SetDesiredTransition(id, c.Transitions[id]); err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	}
	upsertEvals(tx, c.Evals)
	return nil
}

// interner makes equal strings of one entry share memory.
type interner map[string]string

func (in interner) intern(s string) string {
	if t, ok := in[s]; ok {
		return t
	}
	in[s] = s
	return s
}
