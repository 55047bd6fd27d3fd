// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// UpsertEvals stores evaluations.
type UpsertEvals struct{ Evals []*model.Evaluation }

func (*UpsertEvals) kind() byte { return kindUpsertEvals }

func (c *UpsertEvals) apply(tx *state.Tx) error {
	upsertEvals(tx, c.Evals)
	return nil
}

func upsertEvals(tx *state.Tx, evals []*model.Evaluation) {
	for _, e := range evals {
		if e != nil {
			tx.UpsertEval(e)
		}
	}
}

// DeleteEvals removes evaluations and allocs during garbage collection; missing ones
// are skipped.
type DeleteEvals struct {
	EvalIDs  []string
	AllocIDs []string
}

func (*DeleteEvals) kind() byte { return kindDeleteEvals }

func (c *DeleteEvals) apply(tx *state.Tx) error {
	for _, id := range c.EvalIDs {
		tx.DeleteEval(id)
	}
	for _, id := range c.AllocIDs {
		tx.DeleteAlloc(id)
	}
	return nil
}
