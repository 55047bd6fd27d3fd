// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"cmp"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
)

// heldBy prints which groups an evaluation holds back, because they depend on others.
func (s *session) heldBy(e *model.Evaluation, title string) {
	if len(e.Held) == 0 {
		return
	}
	s.title("%s", title)
	for _, line := range e.Holds(time.Now()) {
		s.printf("%s", visible(line))
	}
}

// held prints what the groups of a job wait for, by the newest evaluation that was carried
// out or is blocked.
func (s *session) held(evals []*model.Evaluation) {
	decided := slices.DeleteFunc(slices.Clone(evals), func(e *model.Evaluation) bool {
		return e.Status == model.EvalStatusPending || e.Status == model.EvalStatusCancelled
	})
	if len(decided) == 0 {
		return
	}
	newest := slices.MaxFunc(decided, func(a, b *model.Evaluation) int { return cmp.Compare(a.ModifyIndex, b.ModifyIndex) })
	s.heldBy(newest, "\nDependencies")
}
