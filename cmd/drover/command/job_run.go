// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strconv"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func jobRun() spec {
	return spec{
		usage: "job run [options] <path>", synopsis: "Registers a job, or a new version of it, and follows its roll-out",
		help: "The path - reads the job from standard input.\n\nExit codes: 0 placed and healthy, 1 an error or a failed deployment,\n2 not everything could be placed.",
		min:  1, max: 1, takes: takesFiles,
		setup: func(fs *flag.FlagSet) run {
			f := &jobFile{}
			f.declare(fs)
			var (
				detach    = detachFlag(fs)
				output    = fs.Bool("output", false, "Prints the job as JSON and does not register it.")
				check     = fs.String("check-index", "", "Registers only if the job is at this index; 0: only if it is new.")
				counts    = fs.Bool("preserve-counts", false, "Keeps the counts of groups that exist.")
				resources = fs.Bool("preserve-resources", false, "Keeps the resources of tasks that exist.")
				override  = fs.Bool("policy-override", false, "Overrides soft policies of the cluster.")
				priority  = fs.Int("eval-priority", 0, "Priority of the evaluation, if other than the job's.")
				show      = uiFlag(fs)
			)
			refuse(fs, false, "there is no Consul integration", "consul-namespace")
			return func(ctx context.Context, s *session, args []string) error {
				draft, submission, err := f.load(args[0], s)
				if err != nil {
					return err
				}
				if *output {
					return s.printJSON(map[string]any{"Job": draft})
				}
				if *resources {
					if err := s.preserveResources(ctx, draft); err != nil {
						return err
					}
				}
				body, err := s.encode(draft)
				if err != nil {
					return err
				}
				req := &api.JobRegisterRequest{Job: body, Submission: submission, PreserveCounts: *counts, PolicyOverride: *override, EvalPriority: *priority}
				if req.EnforceIndex, req.JobModifyIndex, err = checkIndex(*check); err != nil {
					return err
				}
				drivers := s.askDrivers(ctx, draft)
				if err := drivers.err(); err != nil {
					return err
				}
				res, err := s.client.RegisterJob(ctx, req)
				if err != nil {
					return err
				}
				s.warn(drivers.locate(res.Warnings))
				if draft.ID != nil {
					s.maybeUI(*show, uiJob(s.client.Namespace(), *draft.ID))
				}
				return s.registered(ctx, res, *detach)
			}
		},
	}
}

// registered follows what a registration began.
func (s *session) registered(ctx context.Context, res *api.JobRegisterResponse, detach bool) error {
	if res.EvalID == "" || detach {
		s.printf("Job registration successful")
	}
	return s.follow(ctx, res.EvalID, detach)
}

// checkIndex reads -check-index.
func checkIndex(text string) (enforce bool, index uint64, err error) {
	if text == "" {
		return false, 0, nil
	}
	if index, err = strconv.ParseUint(text, 10, 64); err != nil {
		return false, 0, fmt.Errorf("-check-index %q is no number; `drover job plan` names the one to use: %w", text, err)
	}
	return true, index, nil
}

// preserveResources gives the tasks of a draft the resources that the
// registered job has, by the names of groups and tasks.
func (s *session) preserveResources(ctx context.Context, draft *jobspec.Draft) error {
	if draft.ID == nil {
		return nil
	}
	c := s.client
	if draft.Namespace != nil {
		c = c.WithNamespace(*draft.Namespace)
	}
	old, _, err := c.Job(ctx, *draft.ID, nil)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, g := range draft.TaskGroups {
		if g.Name == nil {
			continue
		}
		was := old.LookupTaskGroup(*g.Name)
		if was == nil {
			continue
		}
		for _, t := range g.Tasks {
			before := was.LookupTask(t.Name)
			if before == nil || before.Resources == nil {
				continue
			}
			if t.Resources, err = draftResources(before.Resources); err != nil {
				return fmt.Errorf("the resources of task %q cannot be kept: %w", t.Name, err)
			}
		}
	}
	return nil
}

// draftResources writes resources as a job file would: what a job does not have is not set.
func draftResources(r *model.Resources) (*jobspec.Resources, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	out := &jobspec.Resources{}
	if err := json.Unmarshal(b, out); err != nil {
		return nil, err
	}
	for _, p := range []**int{&out.CPU, &out.Cores, &out.MemoryMaxMB, &out.DiskMB, &out.IOPS, &out.SecretsMB} {
		if *p != nil && **p == 0 {
			*p = nil
		}
	}
	if out.Cores != nil {
		out.CPU = nil // one excludes the other
	}
	return out, nil
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
