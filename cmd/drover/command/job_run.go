// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"strconv"

	"github.com/drover-project/drover/core/api"
)

func jobRun() spec {
	return spec{
		usage: "job run [options] <path>", synopsis: "Registers a job, or a new version of it, and follows its roll-out",
		help: "Exit codes: 0 placed and healthy, 1 an error or a failed deployment,\n2 not everything could be placed.",
		min:  1, max: 1,
		setup: func(fs *flag.FlagSet) run {
			f := &jobFile{}
			f.declare(fs)
			var (
				detach      = fs.Bool("detach", false, "Returns after the registration and prints the id of the evaluation.")
				output      = fs.Bool("output", false, "Prints the job as JSON and does not register it.")
				checkIndex  = fs.String("check-index", "", "Registers only if the job is at this index; 0: only if it is new.")
				preserve    = fs.Bool("preserve-counts", false, "Keeps the counts of groups that exist.")
				override    = fs.Bool("policy-override", false, "Overrides soft policies.")
				evaluations = fs.Int("eval-priority", 0, "Priority of the evaluation, if other than the job's.")
			)
			return func(ctx context.Context, s *session, args []string) error {
				draft, submission, err := f.load(args[0], s)
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
				req := &api.JobRegisterRequest{Job: body, Submission: submission, PreserveCounts: *preserve, PolicyOverride: *override, EvalPriority: *evaluations}
				if *checkIndex != "" {
					req.EnforceIndex = true
					if req.JobModifyIndex, err = strconv.ParseUint(*checkIndex, 10, 64); err != nil {
						return fmt.Errorf("-check-index %q is no number: %w", *checkIndex, err)
					}
				}
				res, err := s.client.RegisterJob(ctx, req)
				if err != nil {
					return err
				}
				s.warn(res.Warnings)
				if res.EvalID == "" {
					s.printf("Job registration successful")
					return nil
				}
				if *detach {
					s.printf("Job registration successful\nEvaluation ID: %s", res.EvalID)
					return nil
				}
				return s.monitor(ctx, res.EvalID)
			}
		},
	}
}

// warn prints the warnings of an answer to standard error.
func (s *session) warn(text string) {
	if text != "" {
		fmt.Fprintln(s.Err, s.paint("33", "Job Warnings:\n"+text)+"\n")
	}
}
