// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"slices"
	"strings"
)

// validateContradictions refuses constraints that no node can meet, because they ask for two
// values of one attribute. All tasks of a group are on one node.
func (tg *TaskGroup) validateContradictions(p *ValidationError, j *Job) {
	all := slices.Concat(j.Constraints, tg.Constraints)
	for _, t := range tg.Tasks {
		all = append(all, t.Constraints...)
	}
	wanted := map[string]string{}
	for _, c := range all {
		if c == nil || c.LTarget == "" || strings.Contains(c.RTarget, "${") {
			continue
		}
		switch c.Operand {
		case "=", "==", "is":
		default:
			continue
		}
		if first, has := wanted[c.LTarget]; has && first != c.RTarget {
			p.addf("no node can meet the constraints: %s has to be both %q and %q", c.LTarget, first, c.RTarget)
			return
		}
		wanted[c.LTarget] = c.RTarget
	}
}
