// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"

	"github.com/drover-project/drover/core/api/client"
)

func allocStop() spec {
	return spec{
		usage: "alloc stop [options] <allocation>", synopsis: "Stops an allocation; the scheduler places a replacement", min: 1, max: 1, takes: "allocs",
		setup: func(fs *flag.FlagSet) run {
			detach := detachFlag(fs)
			noDelay := fs.Bool("no-shutdown-delay", false, "Ignores shutdown_delay.")
			return ofAlloc(nil, func(ctx context.Context, s *session, a *client.AllocDetail) error {
				res, err := s.client.StopAllocation(ctx, a.ID, *noDelay)
				if err != nil {
					return err
				}
				return s.follow(ctx, res.EvalID, *detach)
			})
		},
	}
}

func allocRestart() spec {
	return spec{
		usage: "alloc restart [options] <allocation> [<task>]", synopsis: "Restarts tasks of an allocation in place", min: 1, max: 2, takes: "allocs",
		setup: func(fs *flag.FlagSet) run {
			all := fs.Bool("all-tasks", false, "Also restarts tasks that have ended.")
			task := fs.String("task", "", "Only this task.")
			return ofAlloc(task, func(ctx context.Context, s *session, a *client.AllocDetail) error {
				return s.client.RestartAllocation(ctx, a.ID, *task, *all)
			})
		},
	}
}

func allocSignal() spec {
	return spec{
		usage: "alloc signal [options] <allocation> [<task>]", synopsis: "Sends a signal to tasks of an allocation", min: 1, max: 2, takes: "allocs",
		setup: func(fs *flag.FlagSet) run {
			signal := fs.String("s", "SIGKILL", "The signal.")
			task := fs.String("task", "", "Only this task.")
			return ofAlloc(task, func(ctx context.Context, s *session, a *client.AllocDetail) error {
				return s.client.SignalAllocation(ctx, a.ID, *task, *signal)
			})
		},
	}
}

func allocFreeze() spec {
	return spec{
		usage: "alloc freeze [options] <allocation> [<task>]", synopsis: "Pauses running tasks of an allocation", min: 1, max: 2, takes: "allocs",
		setup: func(fs *flag.FlagSet) run {
			task := fs.String("task", "", "Only this task.")
			return ofAlloc(task, func(ctx context.Context, s *session, a *client.AllocDetail) error {
				return s.client.FreezeAllocation(ctx, a.ID, *task)
			})
		},
	}
}

func allocThaw() spec {
	return spec{
		usage: "alloc thaw [options] <allocation> [<task>]", synopsis: "Resumes paused tasks of an allocation", min: 1, max: 2, takes: "allocs",
		setup: func(fs *flag.FlagSet) run {
			task := fs.String("task", "", "Only this task.")
			return ofAlloc(task, func(ctx context.Context, s *session, a *client.AllocDetail) error {
				return s.client.ThawAllocation(ctx, a.ID, *task)
			})
		},
	}
}
