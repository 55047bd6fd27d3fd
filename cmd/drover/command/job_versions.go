// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"strconv"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

func jobInspect() spec {
	return spec{
		usage: "job inspect [options] <job>", synopsis: "Prints a registered job, or the file it came from", min: 1, max: 1, output: true,
		setup: func(fs *flag.FlagSet) run {
			version := fs.String("version", "", "Version to print; the newest by default.")
			hcl := fs.Bool("hcl", false, "Prints the job file that was registered.")
			withVars := fs.Bool("with-vars", false, "With -hcl: prints the variables, too.")
			return func(ctx context.Context, s *session, args []string) error {
				job, err := s.findJob(ctx, args[0])
				if err != nil {
					return err
				}
				if *version != "" {
					if job, err = s.jobVersion(ctx, job.ID, *version); err != nil {
						return err
					}
				}
				if *hcl {
					return s.printSource(ctx, job, *withVars)
				}
				if s.template != "" {
					_, err := s.formatted(job)
					return err
				}
				return s.printJSON(map[string]any{"Job": job})
			}
		},
	}
}

func (s *session) printSource(ctx context.Context, job *model.Job, withVars bool) error {
	sub, _, err := s.client.JobSubmission(ctx, job.ID, job.Version, nil)
	if err != nil {
		return err
	}
	if withVars {
		for _, k := range sortedKeys(sub.VariableFlags) {
			s.printf("# -var %s=%s", k, sub.VariableFlags[k])
		}
		if sub.Variables != "" {
			s.printf("# variables:\n%s\n# job:", sub.Variables)
		}
	}
	s.printf("%s", sub.Source)
	return nil
}

// jobVersion finds a version by its number or tag.
func (s *session) jobVersion(ctx context.Context, id, version string) (*model.Job, error) {
	res, _, err := s.client.JobVersions(ctx, id, false, nil)
	if err != nil {
		return nil, err
	}
	for _, j := range res.Versions {
		if strconv.FormatUint(j.Version, 10) == version || j.VersionTag != nil && j.VersionTag.Name == version {
			return j, nil
		}
	}
	return nil, fmt.Errorf("job %q has no version %q; see: drover job history %s", id, version, id)
}

func jobHistory() spec {
	return spec{
		usage: "job history [options] <job>", synopsis: "Lists the versions of a job", min: 1, max: 1, output: true,
		setup: func(fs *flag.FlagSet) run {
			diffs := fs.Bool("p", false, "Shows what each version changed.")
			only := fs.String("version", "", "Only this version.")
			full := fs.Bool("full", false, "Prints each version whole, as JSON.")
			return func(ctx context.Context, s *session, args []string) error {
				job, err := s.findJob(ctx, args[0])
				if err != nil {
					return err
				}
				res, _, err := s.client.JobVersions(ctx, job.ID, *diffs, nil)
				if err != nil {
					return err
				}
				if done, err := s.formatted(res.Versions); done {
					return err
				}
				for i, j := range res.Versions {
					if *only != "" && strconv.FormatUint(j.Version, 10) != *only {
						continue
					}
					if err := s.printVersion(res, i, j, *full); err != nil {
						return err
					}
				}
				return nil
			}
		},
	}
}

func (s *session) printVersion(res *client.JobVersions, i int, j *model.Job, full bool) error {
	kv := []string{"Version", strconv.FormatUint(j.Version, 10), "Stable", strconv.FormatBool(j.Stable), "Submit Date", date(j.SubmitTime)}
	if j.VersionTag != nil {
		kv = append(kv, "Tag Name", j.VersionTag.Name, "Tag Description", j.VersionTag.Description)
	}
	s.pairs(kv...)
	if i < len(res.Diffs) && res.Diffs[i] != nil {
		s.printf("Diff\n%s", s.jobDiff(res.Diffs[i]))
	}
	if full {
		if err := s.printJSON(j); err != nil {
			return err
		}
	}
	s.printf("")
	return nil
}

func jobRevert() spec {
	return spec{
		usage: "job revert [options] <job> <version|tag>", synopsis: "Registers an earlier version of a job again", min: 2, max: 2,
		setup: func(fs *flag.FlagSet) run {
			detach := fs.Bool("detach", false, "Returns at once and prints the id of the evaluation.")
			return func(ctx context.Context, s *session, args []string) error {
				job, err := s.findJob(ctx, args[0])
				if err != nil {
					return err
				}
				old, err := s.jobVersion(ctx, job.ID, args[1])
				if err != nil {
					return err
				}
				res, err := s.client.RevertJob(ctx, &api.JobRevertRequest{JobID: job.ID, JobVersion: old.Version})
				if err != nil {
					return err
				}
				return s.follow(ctx, res.EvalID, *detach)
			}
		},
	}
}

// follow monitors an evaluation, or prints its id with -detach.
func (s *session) follow(ctx context.Context, evalID string, detach bool) error {
	switch {
	case evalID == "":
		return nil
	case detach:
		s.printf("Evaluation ID: %s", evalID)
		return nil
	}
	return s.monitor(ctx, evalID)
}
