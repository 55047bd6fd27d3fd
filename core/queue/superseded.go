// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue

import "github.com/drover-project/drover/core/model"

// superseded lists the evaluations that newer ones of their jobs replace, until they are marked
// as canceled in the state.
type superseded struct {
	evals []*model.Evaluation
	ripe  chan struct{} // has a value when add was called since somebody looked
}

func newSuperseded() superseded { return superseded{ripe: make(chan struct{}, 1)} }

func (s *superseded) add(e *model.Evaluation) {
	s.evals = append(s.evals, e)
	select {
	case s.ripe <- struct{}{}:
	default:
	}
}

// take returns and clears the list.
func (s *superseded) take() []*model.Evaluation {
	out := s.evals
	s.evals = nil
	return out
}
