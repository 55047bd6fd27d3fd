// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// maxPlaced is the number of problems that are printed with their positions.
const maxPlaced = 200

// driverReport gives the findings of drivers in an answer of the servers their positions in
// the job file.
type driverReport struct {
	draft    *jobspec.Draft
	findings []*api.JobFinding
}

// refused returns the error for a job that the servers have refused with err: the problems
// that drivers have with it, with their positions, and all others. Servers older than the
// findings, and refusals for other reasons, leave err as it is.
func (s *session) refused(ctx context.Context, draft *jobspec.Draft, body json.RawMessage, err error) error {
	if errdefs.IsUnavailable(err) || ctx.Err() != nil {
		return err
	}
	res, failed := s.client.ValidateJob(ctx, body)
	if failed != nil || !slices.ContainsFunc(res.Findings, isProblem) {
		return err
	}
	return s.invalid(res, &driverReport{draft, res.Findings})
}

func isProblem(f *api.JobFinding) bool { return f.Severity == api.FindingError }

// err returns the problems with their positions in the file, or nil if there are
// none.
func (r *driverReport) err() error {
	var notes []jobspec.Note
	for _, f := range r.findings {
		if !isProblem(f) {
			continue
		}
		if len(notes) == maxPlaced {
			notes[maxPlaced-1].Detail += "\n\nMore errors are not shown."
			break
		}
		notes = append(notes, jobspec.Note{
			Group: f.TaskGroup, Task: f.Task, Path: f.Path,
			Summary: fmt.Sprintf("Invalid config for driver %q", f.Driver), Detail: f.Message,
		})
	}
	if len(notes) == 0 {
		return nil
	}
	return r.draft.Refuse(notes)
}

// locate adds the positions in the file to those warnings of the servers that
// concern drivers.
func (r *driverReport) locate(warnings string) string {
	lines := strings.Split(warnings, "\n")
	for _, f := range r.findings {
		i := slices.Index(lines, "* "+f.Message)
		if where := r.draft.Where(f.TaskGroup, f.Task, f.Path); i >= 0 && where != "" {
			lines[i] = "* " + where + ": " + f.Message
		}
	}
	return strings.Join(lines, "\n")
}

// others returns the problems of a job for which the report has no position.
func (r *driverReport) others(validation []string) error {
	var rest model.ValidationError
	for _, text := range validation {
		if !slices.ContainsFunc(r.findings, func(f *api.JobFinding) bool { return isProblem(f) && f.Message == text }) {
			rest = append(rest, errors.New(text))
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return fmt.Errorf("job validation failed: %w", rest)
}
