// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/jobspec"
)

func jobValidate() spec {
	return spec{
		usage: "job validate [options] <path>", synopsis: "Checks a job file without registering it", min: 1, max: 1, takes: takesFiles,
		help: "The path may be - for standard input, or an http or https URL.",
		setup: func(fs *flag.FlagSet) run {
			f := &jobFile{}
			f.declare(fs)
			return func(ctx context.Context, s *session, args []string) error {
				draft, _, err := f.load(ctx, args[0], s)
				if err != nil {
					return err
				}
				body, err := s.encode(draft)
				if err != nil {
					return err
				}
				res, err := s.client.ValidateJob(ctx, body)
				if err != nil {
					return err
				}
				drivers := &driverReport{draft, res.Findings}
				s.warn(drivers.locate(res.Warnings))
				if err := s.invalid(res, drivers); err != nil {
					return err
				}
				s.printf("Job validation successful")
				return nil
			}
		},
	}
}

// invalid returns the error for an invalid job: the drivers' problems with their
// positions in the file, and all others.
func (s *session) invalid(res *api.JobValidateResponse, drivers *driverReport) error {
	if len(res.ValidationErrors) == 0 && res.Error == "" {
		return nil
	}
	placed := drivers.err()
	others := errors.New("job validation failed: " + strings.TrimSpace(res.Error))
	if placed != nil {
		others = drivers.others(res.ValidationErrors)
	}
	if p, ok := jobspec.IsParseError(placed); ok && others != nil {
		fmt.Fprint(s.Err, p.Pretty(100, false))
		return others
	}
	return errors.Join(placed, others)
}
