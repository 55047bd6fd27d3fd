// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

func jobRun() spec {
	return spec{
		usage: "job run [options] <path>", synopsis: "Registers a job, or a new version of it, and monitors its roll-out",
		help: "With the path - the job is read from standard input. An http or https URL is downloaded;\nfile functions of such a job file are off.\n\nExit codes: 0 if the job is placed and healthy, 1 on an error or a failed deployment,\n2 if some allocations could not be placed.",
		min:  1, max: 1, takes: takesFiles,
		setup: func(fs *flag.FlagSet) run {
			f := &jobFile{}
			f.declare(fs)
			var (
				detach    = detachFlag(fs)
				output    = fs.Bool("output", false, "Prints the job as JSON without registering it.")
				check     = fs.String("check-index", "", "Registers the job only if its modify index is this; 0 means only if it is new.")
				counts    = fs.Bool("preserve-counts", false, "Keeps the counts of the groups that are already registered.")
				resources = fs.Bool("preserve-resources", false, "Keeps the resources of the tasks that are already registered.")
				override  = fs.Bool("policy-override", false, "Overrides soft policies of the cluster.")
				priority  = fs.Int("eval-priority", 0, "Priority of the evaluation, if other than the job's.")
				show      = uiFlag(fs)
			)
			refuse(fs, false, "the namespace is that of the consul blocks of the job", "consul-namespace")
			return func(ctx context.Context, s *session, args []string) error {
				draft, submission, err := f.load(ctx, args[0], s)
				if err != nil {
					return err
				}
				if *output {
					return s.printJSON(map[string]any{"Job": draft})
				}
				body, err := s.encode(draft)
				if err != nil {
					return err
				}
				req := &api.JobRegisterRequest{Job: body, Submission: submission, PreserveCounts: *counts, PreserveResources: *resources, PolicyOverride: *override, EvalPriority: *priority}
				if req.EnforceIndex, req.JobModifyIndex, err = checkIndex(*check); err != nil {
					return err
				}
				res, err := s.client.RegisterJob(ctx, req)
				if err != nil {
					return s.refused(ctx, draft, body, err)
				}
				s.warn((&driverReport{draft, res.Findings}).locate(res.Warnings))
				id := ""
				if draft.ID != nil {
					id = *draft.ID
				}
				s.maybeUI(*show, uiJob(s.client.Namespace(), id))
				return s.registered(ctx, id, res, *detach)
			}
		},
	}
}

// registered follows the evaluation that a registration created. A periodic job has none.
func (s *session) registered(ctx context.Context, id string, res *api.JobRegisterResponse, detach bool) error {
	if res.EvalID == "" || detach {
		s.printf("Job registration successful")
	}
	if res.EvalID == "" {
		// What is asked for says only when, and the job is registered also if it fails.
		if job, _, err := s.client.Job(ctx, id, nil); err == nil && job.IsPeriodic() && !job.IsParameterized() {
			s.printf("Approximate next launch time: %s", nextLaunch(job))
		}
	}
	return s.follow(ctx, res.EvalID, detach)
}

// nextLaunch formats the next time at which a periodic job is launched.
func nextLaunch(job *model.Job) string {
	if !job.IsPeriodicActive() {
		return "none"
	}
	schedule, err := job.Periodic.Schedule()
	if err != nil {
		return err.Error()
	}
	next := schedule.Next(time.Now())
	if next.IsZero() {
		return "none"
	}
	return upcoming(next)
}

// checkIndex parses -check-index.
func checkIndex(text string) (enforce bool, index uint64, err error) {
	if text == "" {
		return false, 0, nil
	}
	if index, err = strconv.ParseUint(text, 10, 64); err != nil {
		return false, 0, fmt.Errorf("-check-index %q is not a number; `drover job plan` prints the index to use: %w", text, err)
	}
	return true, index, nil
}

// follow monitors an evaluation or, with -detach, prints its id.
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
