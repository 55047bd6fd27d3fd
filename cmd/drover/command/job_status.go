// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

func jobStatus() spec {
	return spec{
		usage: "job status [options] [<job>]", synopsis: "Lists jobs, or shows one with its groups and allocations", max: 1, output: true, takes: "jobs",
		setup: func(fs *flag.FlagSet) run {
			short := fs.Bool("short", false, "Shows only the job itself.")
			evals := fs.Bool("evals", false, "Shows the evaluations of the job.")
			all := fs.Bool("all-allocs", false, "Also shows the allocations of earlier jobs with this id.")
			show := uiFlag(fs)
			one := ofJob(func(ctx context.Context, s *session, job *model.Job, _ []string) error {
				if done, err := s.formatted(job); done {
					return err
				}
				s.maybeUI(*show, uiJob(job.Namespace, job.ID))
				s.describeJob(job)
				if *short {
					return nil
				}
				if job.IsPeriodic() || job.IsParameterized() {
					return s.describeParent(ctx, job)
				}
				return s.describeJobRun(ctx, job, *evals, *all)
			})
			return func(ctx context.Context, s *session, args []string) error {
				if len(args) == 0 {
					s.maybeUI(*show, "jobs")
					return s.listJobs(ctx)
				}
				return one(ctx, s, args)
			}
		},
	}
}

func jobAllocs() spec {
	return spec{
		usage: "job allocs [options] <job>", synopsis: "Lists the allocations of a job", min: 1, max: 1, output: true, takes: "jobs",
		setup: func(fs *flag.FlagSet) run {
			all := fs.Bool("all", false, "Also lists those of earlier jobs with this id.")
			return ofJob(func(ctx context.Context, s *session, job *model.Job, _ []string) error {
				allocs, _, err := s.client.JobAllocations(ctx, job.ID, *all, nil)
				return s.show(allocs, err, func() {
					s.allocTable(allocs)
				})
			})
		},
	}
}

func jobDeployments() spec {
	return spec{
		usage: "job deployments [options] <job>", synopsis: "Lists the deployments of a job", min: 1, max: 1, output: true, takes: "jobs",
		setup: func(fs *flag.FlagSet) run {
			all := fs.Bool("all", false, "Also lists those of earlier jobs with this id.")
			latest := fs.Bool("latest", false, "Shows only the latest deployment, with its groups.")
			return ofJob(func(ctx context.Context, s *session, job *model.Job, _ []string) error {
				if *latest {
					d, _, err := s.client.JobDeployment(ctx, job.ID, nil)
					if err != nil {
						return err
					}
					if done, err := s.formatted(d); done {
						return err
					}
					if d == nil {
						s.printf("No deployment found for job %q", job.ID)
						return nil
					}
					s.describeDeployment(d)
					s.standing(ctx, d)
					return nil
				}
				list, _, err := s.client.JobDeployments(ctx, job.ID, *all, nil)
				return s.show(list, err, func() {
					s.deploymentTable(list)
				})
			})
		},
	}
}

func (s *session) listJobs(ctx context.Context) error {
	jobs, _, err := s.client.Jobs(ctx, nil)
	if err != nil {
		return err
	}
	if done, err := s.formatted(jobs); done {
		return err
	}
	if len(jobs) == 0 {
		s.printf("No running jobs")
		return nil
	}
	s.jobTable(jobs)
	return nil
}

func (s *session) jobTable(jobs []*api.JobListStub) {
	header := []string{"ID", "Type", "Priority", "Status", "Submit Date"}
	many := s.cfg.Namespace == "*"
	if many {
		header = append([]string{"Namespace"}, header...)
	}
	var rows [][]string
	for _, j := range jobs {
		kind := j.Type
		if j.Periodic {
			kind += "/periodic"
		}
		if j.ParameterizedJob {
			kind += "/parameterized"
		}
		row := []string{j.ID, kind, text(j.Priority), stoppedStatus(j.Status, j.Stop), date(j.SubmitTime)}
		if many {
			row = append([]string{j.Namespace}, row...)
		}
		rows = append(rows, row)
	}
	s.table(header, rows)
}

func (s *session) describeJob(j *model.Job) {
	s.pairs("ID", j.ID, "Name", j.Name, "Submit Date", date(j.SubmitTime), "Type", j.Type, "Priority", strconv.Itoa(j.Priority),
		"Datacenters", strings.Join(j.Datacenters, ","), "Namespace", j.Namespace, "Node Pool", j.NodePool, "Status", stoppedStatus(j.Status, j.Stop),
		"Periodic", strconv.FormatBool(j.IsPeriodic()), "Parameterized", strconv.FormatBool(j.IsParameterized()),
		"Version", strconv.FormatUint(j.Version, 10))
	if j.UI != nil && j.UI.Description != "" {
		s.printf("\n%s", j.UI.Description)
	}
}

// describeParent prints the children of a periodic or parameterized job.
func (s *session) describeParent(ctx context.Context, j *model.Job) error {
	if p := j.Periodic; p != nil {
		specs := p.Specs
		if p.Spec != "" {
			specs = append([]string{p.Spec}, specs...)
		}
		s.title("\nPeriodic")
		s.pairs("Cron", strings.Join(specs, " and "), "Time Zone", p.TimeZone, "Prohibit Overlap", text(p.ProhibitOverlap), "Enabled", text(p.Enabled), "Next Periodic Launch", nextLaunch(j))
	}
	if p := j.ParameterizedJob; p != nil {
		s.title("\nParameterized Job")
		s.pairs("Payload", p.Payload, "Required Metadata", strings.Join(p.MetaRequired, ", "), "Optional Metadata", strings.Join(p.MetaOptional, ", "))
	}
	summary, _, err := s.client.JobSummary(ctx, j.ID, nil)
	if err != nil {
		return err
	}
	if c := summary.Children; c != nil {
		title := "\nChildren Job Summary"
		if j.IsParameterized() {
			title = "\nParameterized Job Summary"
		}
		s.title("%s", title)
		s.table([]string{"Pending", "Running", "Dead"}, [][]string{{text(c.Pending), text(c.Running), text(c.Dead)}})
	}
	jobs, _, err := s.client.Jobs(ctx, &client.Query{Prefix: j.ID + "/"})
	if err != nil {
		return err
	}
	var rows [][]string
	for _, child := range jobs {
		if child.ParentID == j.ID {
			rows = append(rows, []string{child.ID, stoppedStatus(child.Status, child.Stop), date(child.SubmitTime)})
		}
	}
	title, none := "\nPreviously Launched Jobs", "\nNo instances of periodic job found"
	if j.IsParameterized() {
		title, none = "\nDispatched Jobs", "\nNo dispatched instances of parameterized job found"
	}
	if len(rows) == 0 {
		s.printf("%s", none)
		return nil
	}
	s.title("%s", title)
	s.table([]string{"ID", "Status", "Submit Date"}, rows)
	return nil
}

func stoppedStatus(status string, stopped bool) string {
	if stopped {
		return status + " (stopped)"
	}
	return status
}

func (s *session) describeJobRun(ctx context.Context, j *model.Job, withEvals, all bool) error {
	summary, _, err := s.client.JobSummary(ctx, j.ID, nil)
	if err != nil {
		return err
	}
	s.title("\nSummary")
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(summary.Summary)) {
		g := summary.Summary[name]
		row := []string{name}
		for _, n := range []int{g.Queued, g.Starting, g.Running, g.Failed, g.Complete, g.Lost, g.Unknown} {
			row = append(row, strconv.Itoa(n))
		}
		rows = append(rows, row)
	}
	s.table([]string{"Task Group", "Queued", "Starting", "Running", "Failed", "Complete", "Lost", "Unknown"}, rows)
	evals, _, err := s.client.JobEvaluations(ctx, j.ID, nil)
	if err != nil {
		return err
	}
	if withEvals || s.verbose {
		s.title("\nEvaluations")
		s.evalTable(evals)
	}
	s.held(evals)
	if failed := newestFailures(evals); failed != nil {
		s.title("\nPlacement Failure")
		s.placementFailures(failed)
	}
	d, _, err := s.client.JobDeployment(ctx, j.ID, nil)
	if err != nil {
		return err
	}
	if d != nil {
		s.title("\nLatest Deployment")
		s.describeDeployment(d)
		s.standing(ctx, d)
	}
	allocs, _, err := s.client.JobAllocations(ctx, j.ID, all, nil)
	if err != nil {
		return err
	}
	s.title("\nAllocations")
	s.allocTable(allocs)
	return nil
}

// newestFailures returns the placement failures of the newest evaluation.
func newestFailures(evals []*model.Evaluation) map[string]*model.AllocMetric {
	var newest *model.Evaluation
	for _, e := range evals {
		if e.Status == model.EvalStatusBlocked {
			continue
		}
		if newest == nil || e.CreateIndex > newest.CreateIndex {
			newest = e
		}
	}
	if newest == nil || len(newest.FailedTGAllocs) == 0 {
		return nil
	}
	return newest.FailedTGAllocs
}

func (s *session) allocTable(allocs []*model.AllocListStub) {
	if len(allocs) == 0 {
		s.printf("No allocations placed")
		return
	}
	sort.SliceStable(allocs, func(i, k int) bool { return allocs[i].CreateIndex > allocs[k].CreateIndex })
	var rows [][]string
	for _, a := range allocs {
		rows = append(rows, []string{s.id(a.ID), s.id(a.NodeID), a.TaskGroup, strconv.FormatUint(a.JobVersion, 10), a.DesiredStatus, a.ClientStatus, ago(a.CreateTime), ago(a.ModifyTime)})
	}
	s.table([]string{"ID", "Node ID", "Task Group", "Version", "Desired", "Status", "Created", "Modified"}, rows)
}
