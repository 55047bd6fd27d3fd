// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
)

func allocStop() spec {
	return spec{
		usage: "alloc stop [options] <allocation>", synopsis: "Stops an allocation; the scheduler places it again", min: 1, max: 1,
		setup: func(fs *flag.FlagSet) run {
			detach := fs.Bool("detach", false, "Returns at once and prints the id of the evaluation.")
			noDelay := fs.Bool("no-shutdown-delay", false, "Ignores shutdown_delay.")
			return func(ctx context.Context, s *session, args []string) error {
				a, err := s.findAlloc(ctx, args[0])
				if err != nil {
					return err
				}
				res, err := s.client.StopAllocation(ctx, a.ID, *noDelay)
				if err != nil {
					return err
				}
				return s.follow(ctx, res.EvalID, *detach)
			}
		},
	}
}

func allocRestart() spec {
	return spec{
		usage: "alloc restart [options] <allocation> [<task>]", synopsis: "Restarts tasks of an allocation in place", min: 1, max: 2,
		setup: func(fs *flag.FlagSet) run {
			all := fs.Bool("all-tasks", false, "Restarts tasks that do not run, too.")
			task := fs.String("task", "", "Only this task.")
			return func(ctx context.Context, s *session, args []string) error {
				if len(args) == 2 {
					*task = args[1]
				}
				a, err := s.findAlloc(ctx, args[0])
				if err != nil {
					return err
				}
				return s.client.RestartAllocation(ctx, a.ID, *task, *all)
			}
		},
	}
}

func allocSignal() spec {
	return spec{
		usage: "alloc signal [options] <allocation> [<task>]", synopsis: "Sends a signal to tasks of an allocation", min: 1, max: 2,
		setup: func(fs *flag.FlagSet) run {
			signal := fs.String("s", "SIGKILL", "The signal.")
			task := fs.String("task", "", "Only this task.")
			return func(ctx context.Context, s *session, args []string) error {
				if len(args) == 2 {
					*task = args[1]
				}
				a, err := s.findAlloc(ctx, args[0])
				if err != nil {
					return err
				}
				return s.client.SignalAllocation(ctx, a.ID, *task, *signal)
			}
		},
	}
}
