// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"

	"github.com/drover-project/drover/core/api"
)

func jobStop() spec {
	return spec{
		usage: "job stop [options] <job> [<job>...]", synopsis: "Stops jobs", min: 1, max: -1,
		setup: func(fs *flag.FlagSet) run {
			detach := fs.Bool("detach", false, "Returns at once and prints the id of the evaluation.")
			purge := fs.Bool("purge", false, "Forgets the job, too.")
			global := fs.Bool("global", false, "Stops the job in all of its regions.")
			noDelay := fs.Bool("no-shutdown-delay", false, "Ignores shutdown_delay of groups and tasks.")
			priority := fs.Int("eval-priority", 0, "Priority of the evaluation, if other than the job's.")
			_ = fs.Bool("yes", false, "Kept for scripts: nothing is asked when the id is exact.")
			return func(ctx context.Context, s *session, args []string) error {
				for _, id := range args {
					job, err := s.findJob(ctx, id)
					if err != nil {
						return err
					}
					res, err := s.client.DeregisterJob(ctx, job.ID, &api.JobDeregisterRequest{JobID: job.ID, Purge: *purge, Global: *global, NoShutdownDelay: *noDelay, EvalPriority: *priority})
					if err != nil {
						return err
					}
					switch {
					case res.EvalID == "":
						s.printf("Job %q stopped", job.ID)
					case *detach:
						s.printf("%s", res.EvalID)
					default:
						if err := s.monitor(ctx, res.EvalID); err != nil {
							return err
						}
					}
				}
				return nil
			}
		},
	}
}
