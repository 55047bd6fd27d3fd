// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/driverschema"
	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// driverTimeout limits the time for reading drivers' schemas. They only improve the
// messages: servers check the job in any case.
const driverTimeout = 5 * time.Second

// maxPlaced is the number of problems that are printed with their positions.
const maxPlaced = 200

// driverReport holds the problems that the schemas of the drivers find in a job
// file.
type driverReport struct {
	driverschema.Report
	draft *jobspec.Draft
}

// askDrivers checks a job file against the drivers' schemas that the cluster knows.
// A schema that cannot be read is skipped, because the servers check the job again.
func (s *session) askDrivers(ctx context.Context, draft *jobspec.Draft) *driverReport {
	out := &driverReport{draft: draft}
	job, err := draft.Canonical()
	if err != nil {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, driverTimeout)
	defer cancel()
	out.Report = driverschema.Check(job, func(driver string) driverschema.Found { return s.foundDriver(ctx, job, driver) })
	return out
}

func (s *session) foundDriver(ctx context.Context, job *model.Job, driver string) driverschema.Found {
	answer, err := s.client.DriverSchemas(ctx, driver)
	if err != nil {
		return driverschema.Found{Absent: errdefs.IsNotFound(err)}
	}
	var all []driverschema.Known
	for _, x := range answer.Schemas {
		body, err := driverschema.Decode(x.Schema)
		if err != nil {
			continue // a format of a newer version
		}
		k := driverschema.Known{Body: body, CreateIndex: x.CreateIndex}
		for _, u := range x.Uses {
			k.Uses = append(k.Uses, *u)
		}
		all = append(all, k)
	}
	return driverschema.Found{Bodies: driverschema.Choose(all, job), Absent: answer.Nodes == 0}
}

// err returns the problems with their positions in the file, or nil if there are
// none.
func (r *driverReport) err() error {
	var notes []jobspec.Note
	for i, f := range r.Problems {
		if i == maxPlaced {
			notes[i-1].Detail += fmt.Sprintf("\n\n%d more errors are not shown.", len(r.Problems)-i)
			break
		}
		notes = append(notes, jobspec.Note{
			Group: f.Group, Task: f.Task, Path: f.Path,
			Summary: fmt.Sprintf("Invalid config for driver %q", f.Driver), Detail: f.String(),
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
	for _, f := range r.Ignored {
		i := slices.Index(lines, "* "+f.String())
		if where := r.draft.Where(f.Group, f.Task, f.Path); i >= 0 && where != "" {
			lines[i] = "* " + where + ": " + f.String()
		}
	}
	return strings.Join(lines, "\n")
}

// others returns the problems of a job for which the report has no position.
func (r *driverReport) others(validation []string) error {
	var rest model.ValidationError
	for _, text := range validation {
		if !slices.ContainsFunc(r.Problems, func(f driverschema.Finding) bool { return f.String() == text }) {
			rest = append(rest, errors.New(text))
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return fmt.Errorf("job validation failed: %w", rest)
}
