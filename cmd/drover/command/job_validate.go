// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
)

func jobValidate() spec {
	return spec{
		usage: "job validate [options] <path>", synopsis: "Checks a job file without registering it", min: 1, max: 1, takes: takesFiles,
		setup: func(fs *flag.FlagSet) run {
			f := &jobFile{}
			f.declare(fs)
			return func(ctx context.Context, s *session, args []string) error {
				draft, _, err := f.load(args[0], s)
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
				s.warn(res.Warnings)
				if len(res.ValidationErrors) > 0 || res.Error != "" {
					return errors.New("job validation failed: " + res.Error)
				}
				s.printf("Job validation successful")
				return nil
			}
		},
	}
}
