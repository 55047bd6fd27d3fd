// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"maps"
	"slices"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

func allocPause() spec {
	return spec{
		usage: "alloc pause [options] <allocation> [<task>]", synopsis: "Pauses tasks that have a schedule block, has them run, or follow it again", min: 1, max: 2, takes: "allocs", output: true,
		setup: func(fs *flag.FlagSet) run {
			state := fs.String("state", model.ScheduleStatePause, "What the task is to do: pause, run or scheduled (follow its schedule).")
			status := fs.Bool("status", false, "Shows what the task does and changes nothing.")
			task := fs.String("task", "", "Only this task.")
			return ofAlloc(task, func(ctx context.Context, s *session, a *client.AllocDetail) error {
				if *status && given(fs, "state") {
					return errors.New("-status changes nothing: leave out -state")
				}
				if *status {
					now, err := s.client.AllocationSchedule(ctx, a.ID, *task)
					if err != nil {
						return err
					}
					return s.printSchedules(now)
				}
				if err := model.CheckScheduleState(*state); err != nil {
					return err
				}
				now, err := s.client.DirectAllocation(ctx, a.ID, *task, *state)
				if err != nil {
					return err
				}
				return s.printSchedules(now)
			})
		},
	}
}

func (s *session) printSchedules(now *api.AllocPause) error {
	if done, err := s.formatted(now); done {
		return err
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(now.Tasks)) {
		t := now.Tasks[name]
		next := "never"
		if !t.Next.IsZero() {
			next = when(t.Next)
		}
		rows = append(rows, []string{name, t.State, pauseText(t.Paused), next})
	}
	s.table([]string{"Task", "State", "Now", "Window Changes"}, rows)
	return nil
}

// pauseText says what TaskState.Paused means.
func pauseText(paused string) string {
	switch paused {
	case "":
		return "runs"
	case model.PausedBySchedule:
		return "paused by its schedule"
	case model.PausedByOperator:
		return "paused by an operator"
	case model.RunByOperator:
		return "runs by an operator's word"
	}
	return paused
}
