// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/model"
)

// hold records in the evaluation what its groups wait for, and returns the groups that go on
// waiting. If a group has waited for too long, the evaluation fails, because nothing would try
// that group again.
func (p *process) hold(e *model.Evaluation, held map[string]*model.Hold) (waits map[string]*model.Hold) {
	e.Held = nil
	if len(held) == 0 {
		return nil
	}
	e.Held, p.out.Held = held, held
	over := map[string]*model.Hold{}
	for group, h := range held {
		if h.Over {
			over[group] = h
			continue
		}
		if waits == nil {
			waits = map[string]*model.Hold{}
		}
		waits[group] = h
	}
	if len(over) > 0 {
		e.Status, e.StatusDescription = model.EvalStatusFailed, describe(over)
	}
	return waits
}

// maxDescribed is how many groups the description of an evaluation names.
const maxDescribed = 3

func describe(held map[string]*model.Hold) string {
	groups := slices.Sorted(maps.Keys(held))
	var words []string
	for _, group := range groups[:min(len(groups), maxDescribed)] {
		words = append(words, fmt.Sprintf("group %q %s", group, held[group]))
	}
	if more := len(groups) - maxDescribed; more > 0 {
		words = append(words, fmt.Sprintf("and %d more groups wait", more))
	}
	return strings.Join(words, "; ")
}
