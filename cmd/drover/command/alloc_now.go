// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// nowLimit limits how long a node may take to describe the current activity of tasks: it
// answers from memory, and asks drivers that can pause tasks.
const nowLimit = 5 * time.Second

// tasksNow asks the node of an alloc for the current activity of its tasks. It returns nil
// if that adds nothing to the servers' data, or if the node does not answer.
func (s *session) tasksNow(ctx context.Context, a *model.Allocation) map[string]*model.TaskNow {
	waits := starting(a)
	if a.TerminalStatus() || !waits && a.ClientStatus != model.AllocClientStatusRunning {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, nowLimit)
	defer cancel()
	now, err := s.client.AllocationTasks(ctx, a.ID)
	switch {
	case errdefs.IsNotFound(err) || errdefs.IsUnimplemented(err): // an older agent, or the node has not got the alloc yet
		return nil
	case err != nil && !waits: // only a frozen task could be missed
		fmt.Fprintf(s.Err, "Couldn't ask whether tasks are frozen: %s\n", client.Text(err))
		return nil
	case err != nil:
		fmt.Fprintf(s.Err, "Couldn't retrieve what the tasks do now: %s\n", client.Text(err))
		return nil
	}
	return now.Tasks
}

// starting reports whether servers know of a task of the alloc that waits for its start.
func starting(a *model.Allocation) bool {
	for _, t := range a.TaskStates {
		if t.State == model.TaskStatePending {
			return true
		}
	}
	return false
}

// describeNow prints the current activity of a task.
func (s *session) describeNow(t *model.TaskNow) {
	if t != nil && t.Paused {
		s.printf("Frozen: its driver holds the task where it is; drover alloc thaw lets it continue")
	}
	if t == nil || t.Start == nil {
		return
	}
	line := fmt.Sprintf("Starting: step %q since %s", t.Start.Step, when(t.Start.Since))
	if !t.Start.Deadline.IsZero() {
		line += ", at most until " + when(t.Start.Deadline)
	}
	if t.Start.Detail != "" {
		line += ": " + t.Start.Detail
	}
	s.printf("%s", visible(line))
	if t.Start.LastError != "" {
		s.printf("%s", visible("The start before failed: "+t.Start.LastError))
	}
}
