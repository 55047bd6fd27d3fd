// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"cmp"
	"slices"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/services"
)

// noteUnregistered tells, once, which services of the running alloc nobody finds, because they
// have no address, or a name that refers to nothing.
func (r *Runner) noteUnregistered(e *effects) {
	if !slices.ContainsFunc(r.group.Tasks, func(t *model.Task) bool { return len(t.Services) > 0 }) && len(r.group.Services) == 0 {
		return
	}
	key := r.checkKey()
	if key == r.checked.missed || !r.seen() {
		return
	}
	r.checked.missed = key
	now := *r.alloc
	seen := r.view()
	now.ClientStatus, now.TaskStates, now.NetworkStatus = seen.ClientStatus, seen.TaskStates, seen.NetworkStatus
	told := map[string]bool{}
	in := services.Input{Alloc: &now, Job: now.Job, Node: r.cfg.Node()}
	_, elsewhere := services.Offers(in)
	for _, m := range slices.Concat(services.Unregistered(in), elsewhere) {
		text := "Nobody finds a service: " + m.Err.Error()
		if told[text] = true; r.checked.missing[text] {
			continue
		}
		r.logger.Warn("nobody finds a service", "error", m.Err)
		ev := model.TaskEvent{Type: model.TaskHookMessage, Message: text, DisplayMessage: text, Details: map[string]string{"message": text}}
		r.step(cmp.Or(m.Task, r.group.Tasks[0].Name), task.Note{Event: ev}, e)
	}
	r.checked.missing = told
}
