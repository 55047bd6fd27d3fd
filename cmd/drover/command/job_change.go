// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

func jobScale() spec {
	return spec{
		usage: "job scale [options] <job> [<group>] <count>", synopsis: "Changes the count of a group", min: 2, max: 3,
		setup: func(fs *flag.FlagSet) run {
			detach := fs.Bool("detach", false, "Returns at once and prints the id of the evaluation.")
			return func(ctx context.Context, s *session, args []string) error {
				job, err := s.findJob(ctx, args[0])
				if err != nil {
					return err
				}
				count, err := strconv.ParseInt(args[len(args)-1], 10, 64)
				if err != nil {
					return fmt.Errorf("count %q is no number: %w", args[len(args)-1], err)
				}
				group := ""
				switch {
				case len(args) == 3:
					group = args[1]
				case len(job.TaskGroups) == 1:
					group = job.TaskGroups[0].Name
				default:
					return fmt.Errorf("job %q has several groups; name one: drover job scale %s <group> %d", job.ID, job.ID, count)
				}
				res, err := s.client.ScaleJob(ctx, job.ID, group, &count, "submitted using the Drover CLI")
				if err != nil {
					return err
				}
				s.warn(res.Warnings)
				return s.follow(ctx, res.EvalID, *detach)
			}
		},
	}
}

func jobEval() spec {
	return spec{
		usage: "job eval [options] <job>", synopsis: "Asks the scheduler to look at a job again", min: 1, max: 1,
		setup: func(fs *flag.FlagSet) run {
			detach := fs.Bool("detach", false, "Returns at once and prints the id of the evaluation.")
			force := fs.Bool("force-reschedule", false, "Replaces failed allocations even if their policy says later or never.")
			return func(ctx context.Context, s *session, args []string) error {
				job, err := s.findJob(ctx, args[0])
				if err != nil {
					return err
				}
				res, err := s.client.EvaluateJob(ctx, job.ID, *force)
				if err != nil {
					return err
				}
				return s.follow(ctx, res.EvalID, *detach)
			}
		},
	}
}

func jobAllocs() spec {
	return spec{
		usage: "job allocs [options] <job>", synopsis: "Lists the allocations of a job", min: 1, max: 1, output: true,
		setup: func(fs *flag.FlagSet) run {
			all := fs.Bool("all", false, "Also those of earlier jobs of this id.")
			return func(ctx context.Context, s *session, args []string) error {
				job, err := s.findJob(ctx, args[0])
				if err != nil {
					return err
				}
				allocs, _, err := s.client.JobAllocations(ctx, job.ID, *all, nil)
				if err != nil {
					return err
				}
				if done, err := s.formatted(allocs); done {
					return err
				}
				s.allocTable(allocs)
				return nil
			}
		},
	}
}

func jobDeployments() spec {
	return spec{
		usage: "job deployments [options] <job>", synopsis: "Lists the deployments of a job", min: 1, max: 1, output: true,
		setup: func(fs *flag.FlagSet) run {
			all := fs.Bool("all", false, "Also those of earlier jobs of this id.")
			latest := fs.Bool("latest", false, "Only the latest.")
			return func(ctx context.Context, s *session, args []string) error {
				job, err := s.findJob(ctx, args[0])
				if err != nil {
					return err
				}
				var list []*model.Deployment
				if *latest {
					d, _, err := s.client.JobDeployment(ctx, job.ID, nil)
					if err != nil {
						return err
					}
					if d != nil {
						list = append(list, d)
					}
				} else if list, _, err = s.client.JobDeployments(ctx, job.ID, *all, nil); err != nil {
					return err
				}
				if done, err := s.formatted(list); done {
					return err
				}
				s.deploymentTable(list)
				return nil
			}
		},
	}
}

func jobPromote() spec {
	return spec{
		usage: "job promote [options] <job>", synopsis: "Promotes the canaries of a job's latest deployment", min: 1, max: 1,
		setup: func(fs *flag.FlagSet) run {
			var groups stringList
			fs.Var(&groups, "group", "Only this group. May be given several times.")
			detach := fs.Bool("detach", false, "Returns at once and prints the id of the evaluation.")
			return func(ctx context.Context, s *session, args []string) error {
				job, err := s.findJob(ctx, args[0])
				if err != nil {
					return err
				}
				d, _, err := s.client.JobDeployment(ctx, job.ID, nil)
				if err != nil {
					return err
				}
				if d == nil {
					return fmt.Errorf("job %q has no deployment to promote", job.ID)
				}
				res, err := s.client.PromoteDeployment(ctx, d.ID, groups)
				if err != nil {
					return err
				}
				return s.follow(ctx, res.EvalID, *detach)
			}
		},
	}
}

func jobRestart() spec {
	return spec{
		usage: "job restart [options] <job>", synopsis: "Restarts the tasks of a job in batches, or moves its allocations", min: 1, max: 1,
		setup: func(fs *flag.FlagSet) run {
			var groups, tasks stringList
			fs.Var(&groups, "group", "Only this group. May be given several times.")
			fs.Var(&tasks, "task", "Only this task. May be given several times.")
			size := fs.String("batch-size", "1", "How many allocations at once; a number or a percentage.")
			wait := fs.Duration("batch-wait", 0, "Pause between batches.")
			all := fs.Bool("all-tasks", false, "Restarts tasks that do not run, too.")
			move := fs.Bool("reschedule", false, "Stops allocations so that they are placed again.")
			noDelay := fs.Bool("no-shutdown-delay", false, "With -reschedule: ignores shutdown_delay.")
			onError := fs.String("on-error", "fail", "What an error does: fail ends the command, continue goes on.")
			_ = fs.Bool("yes", false, "Kept for scripts: nothing is asked.")
			return func(ctx context.Context, s *session, args []string) error {
				job, err := s.findJob(ctx, args[0])
				if err != nil {
					return err
				}
				stubs, _, err := s.client.JobAllocations(ctx, job.ID, false, nil)
				if err != nil {
					return err
				}
				var ids []string
				for _, a := range stubs {
					if a.ClientStatus == model.AllocClientStatusRunning && a.DesiredStatus == model.AllocDesiredStatusRun && contains(groups, a.TaskGroup) {
						ids = append(ids, a.ID)
					}
				}
				batch, err := batchSize(*size, len(ids))
				if err != nil {
					return err
				}
				return s.restartBatches(ctx, ids, batch, *wait, *onError == "continue", func(id string) error {
					return s.restartOne(ctx, id, tasks, *all, *move, *noDelay)
				})
			}
		},
	}
}

// contains reports whether list is empty or has v.
func contains(list []string, v string) bool {
	for _, e := range list {
		if e == v {
			return true
		}
	}
	return len(list) == 0
}

func batchSize(text string, total int) (int, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("-batch-size %q: write a number over 0 or a percentage", text)
	}
	if percent {
		n = max(total*n/100, 1)
	}
	return n, nil
}

func (s *session) restartBatches(ctx context.Context, ids []string, size int, wait time.Duration, goOn bool, restart func(string) error) error {
	s.step("Restarting %d allocations, %d at once", len(ids), size)
	failed := 0
	for i, id := range ids {
		if i > 0 && i%size == 0 && wait > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(wait):
			}
		}
		s.printf("    %s: Restarting allocation %q", time.Now().Format(time.RFC3339), s.id(id))
		if err := restart(id); err != nil {
			failed++
			if !goOn {
				return fmt.Errorf("allocation %s: %w", id, err)
			}
			s.printf("    allocation %q: %s", s.id(id), client.Text(err))
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d allocations could not be restarted", failed, len(ids))
	}
	s.step("Job restart finished")
	return nil
}

func (s *session) restartOne(ctx context.Context, id string, tasks []string, all, move, noDelay bool) error {
	if move {
		_, err := s.client.StopAllocation(ctx, id, noDelay)
		return err
	}
	if len(tasks) == 0 {
		return s.client.RestartAllocation(ctx, id, "", all)
	}
	for _, t := range tasks {
		if err := s.client.RestartAllocation(ctx, id, t, false); err != nil {
			return err
		}
	}
	return nil
}
