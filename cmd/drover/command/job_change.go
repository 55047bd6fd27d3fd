// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strconv"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func jobStop() spec {
	return spec{
		usage: "job stop [options] <job> [<job>...]", synopsis: "Stops jobs", min: 1, max: -1, takes: "jobs",
		help: "If a job is given by a prefix of its id, the command asks for confirmation before it stops the job.",
		setup: func(fs *flag.FlagSet) run {
			detach, yes := detachFlag(fs), yesFlag(fs, "the prompt that confirms a job given by prefix")
			purge := fs.Bool("purge", false, "Also removes the job from state instead of keeping it as stopped.")
			global := fs.Bool("global", false, "Stops the job in all its regions.")
			noDelay := fs.Bool("no-shutdown-delay", false, "Ignores the shutdown_delay of groups and tasks.")
			priority := fs.Int("eval-priority", 0, "Priority of the evaluation; the job's priority by default.")
			return func(ctx context.Context, s *session, args []string) error {
				for _, id := range args {
					job, err := s.findJob(ctx, id)
					if err != nil {
						return err
					}
					if sure, err := s.confirm(*yes || job.ID == id, "Stop the job %q?", job.ID); !sure {
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

func jobStart() spec {
	return spec{
		usage: "job start [options] <job>", synopsis: "Starts a stopped job again, with its last specification", min: 1, max: 1, takes: "jobs",
		setup: func(fs *flag.FlagSet) run {
			detach := detachFlag(fs)
			return ofJob(func(ctx context.Context, s *session, job *model.Job, _ []string) error {
				if !job.Stop {
					return fmt.Errorf("job %q is not stopped; see: drover job status %s", job.ID, job.ID)
				}
				// Stopping a job makes a version that is a copy of the version before with Stop set.
				req := &api.JobRegisterRequest{EnforceIndex: true, JobModifyIndex: job.JobModifyIndex}
				again := job.Copy()
				again.Stop = false
				var err error
				if req.Job, err = json.Marshal(again); err != nil {
					return fmt.Errorf("the job cannot be written as JSON: %w", err)
				}
				if req.Submission, err = s.submissionBefore(ctx, job); err != nil {
					return err
				}
				res, err := s.client.RegisterJob(ctx, req)
				if err != nil {
					return err
				}
				s.warn(res.Warnings)
				return s.registered(ctx, job.ID, res, *detach)
			})
		},
	}
}

// submissionBefore returns the newest stored job file of a job, or nil if there is
// none.
func (s *session) submissionBefore(ctx context.Context, job *model.Job) (*model.JobSubmission, error) {
	for v, n := job.Version, 0; n < 2; v, n = v-1, n+1 {
		sub, _, err := s.client.JobSubmission(ctx, job.ID, v, nil)
		switch {
		case err == nil:
			return sub, nil
		case !errdefs.IsNotFound(err):
			return nil, err
		case v == 0:
			return nil, nil
		}
	}
	return nil, nil
}

func jobScale() spec {
	return spec{
		usage: "job scale [options] <job> [<group>] <count>", synopsis: "Changes the count of a group", min: 2, max: 3, takes: "jobs",
		setup: func(fs *flag.FlagSet) run {
			detach := detachFlag(fs)
			check := fs.String("check-index", "", "Scales the job only if its modify index is this.")
			return ofJob(func(ctx context.Context, s *session, job *model.Job, rest []string) error {
				count, err := strconv.ParseInt(rest[len(rest)-1], 10, 64)
				if err != nil {
					return fmt.Errorf("count %q is not a number: %w", rest[len(rest)-1], err)
				}
				group := ""
				switch {
				case len(rest) == 2:
					group = rest[0]
				case len(job.TaskGroups) == 1:
					group = job.TaskGroups[0].Name
				default:
					return fmt.Errorf("job %q has several groups; name one: drover job scale %s <group> %d", job.ID, job.ID, count)
				}
				req := &api.JobScaleRequest{Count: &count, Target: map[string]string{"Group": group}, Message: "submitted using the Drover CLI"}
				if req.EnforceIndex, req.JobModifyIndex, err = checkIndex(*check); err != nil {
					return err
				}
				res, err := s.client.ScaleJob(ctx, job.ID, req)
				if err != nil {
					return err
				}
				s.warn(res.Warnings)
				return s.follow(ctx, res.EvalID, *detach)
			})
		},
	}
}

func jobEval() spec {
	return spec{
		usage: "job eval [options] <job>", synopsis: "Creates an evaluation that makes the scheduler process a job again", min: 1, max: 1, takes: "jobs",
		setup: func(fs *flag.FlagSet) run {
			detach := detachFlag(fs)
			force := fs.Bool("force-reschedule", false, "Reschedules failed allocations now, even if their reschedule policy says later or never.")
			return ofJob(func(ctx context.Context, s *session, job *model.Job, _ []string) error {
				res, err := s.client.EvaluateJob(ctx, job.ID, *force)
				if err != nil {
					return err
				}
				return s.follow(ctx, res.EvalID, *detach)
			})
		},
	}
}

func jobPromote() spec {
	return spec{
		usage: "job promote [options] <job>", synopsis: "Promotes the canaries of a job's latest deployment", min: 1, max: 1, takes: "jobs",
		setup: func(fs *flag.FlagSet) run {
			groups, detach := lists(fs, "group", "Only this group."), detachFlag(fs)
			return ofJob(func(ctx context.Context, s *session, job *model.Job, _ []string) error {
				d, _, err := s.client.JobDeployment(ctx, job.ID, nil)
				if err != nil {
					return err
				}
				if d == nil {
					return fmt.Errorf("job %q has no deployment to promote", job.ID)
				}
				res, err := s.client.PromoteDeployment(ctx, d.ID, *groups)
				if err != nil {
					return err
				}
				return s.follow(ctx, res.EvalID, *detach)
			})
		},
	}
}

func jobRevert() spec {
	return spec{
		usage: "job revert [options] <job> <version|tag>", synopsis: "Reverts a job to an earlier version", min: 2, max: 2, takes: "jobs",
		setup: func(fs *flag.FlagSet) run {
			detach := detachFlag(fs)
			return ofJob(func(ctx context.Context, s *session, job *model.Job, rest []string) error {
				old, err := s.jobVersion(ctx, job.ID, rest[0])
				if err != nil {
					return err
				}
				res, err := s.client.RevertJob(ctx, &api.JobRevertRequest{JobID: job.ID, JobVersion: old.Version})
				if err != nil {
					return err
				}
				s.warn(res.Warnings)
				return s.follow(ctx, res.EvalID, *detach)
			})
		},
	}
}

func jobTagApply() spec {
	return spec{
		usage: "job tag apply [options] -name <tag> <job>", synopsis: "Tags a version of a job, so that it is kept and can be named in history and revert", min: 1, max: 1, takes: "jobs",
		setup: func(fs *flag.FlagSet) run {
			name := fs.String("name", "", "Name of the tag. Required.")
			description := fs.String("description", "", "Description of the version.")
			version := fs.String("version", "", "The version; the newest by default.")
			return ofJob(func(ctx context.Context, s *session, job *model.Job, _ []string) error {
				if *name == "" {
					return errors.New("give the name of the tag with -name")
				}
				number := job.Version
				if *version != "" {
					var err error
					if number, err = strconv.ParseUint(*version, 10, 64); err != nil {
						return fmt.Errorf("-version %q is not a number: %w", *version, err)
					}
				}
				if err := s.client.TagJobVersion(ctx, job.ID, *name, &number, *description); err != nil {
					return err
				}
				s.printf("Job version %d of %q tagged with name %q", number, job.ID, *name)
				return nil
			})
		},
	}
}

func jobTagUnset() spec {
	return spec{
		usage: "job tag unset [options] -name <tag> <job>", synopsis: "Removes a tag from a version of a job", min: 1, max: 1, takes: "jobs",
		setup: func(fs *flag.FlagSet) run {
			name := fs.String("name", "", "Name of the tag. Required.")
			return ofJob(func(ctx context.Context, s *session, job *model.Job, _ []string) error {
				if *name == "" {
					return errors.New("give the name of the tag with -name")
				}
				if err := s.client.UntagJobVersion(ctx, job.ID, *name); err != nil {
					return err
				}
				s.printf("Tag %q removed from job %q", *name, job.ID)
				return nil
			})
		},
	}
}
