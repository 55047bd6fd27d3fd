// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"context"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
)

// answerTasks answers with the current activity of an alloc's tasks.
func (s *Server) answerTasks(ctx context.Context, q rpc.AllocRequest, send func([]byte) error) error {
	r, err := s.cfg.Allocs.Runner(q.AllocID)
	if err != nil {
		return err
	}
	out := model.AllocTasks{Tasks: map[string]*model.TaskNow{}}
	for _, step := range r.Steps() {
		out.Tasks[step.Task] = &model.TaskNow{Start: startOf(step)}
	}
	for _, name := range r.Paused(ctx) {
		if now := out.Tasks[name]; now != nil {
			now.Paused = true
		}
	}
	return sendJSON(send, out)
}

// startOf returns the start that is under way, nil if there is none.
func startOf(s alloc.StepStatus) *model.TaskStart {
	if s.Step == "" {
		return nil
	}
	out := &model.TaskStart{Step: s.Step, Since: s.Since, Deadline: s.Deadline, Detail: s.Detail, LastError: s.LastError}
	if p := s.Progress; p != nil {
		out.Progress = &model.TaskProgress{Phase: p.Phase, Done: p.Done, Total: p.Total, Unit: p.Unit, At: p.At}
	}
	return out
}
