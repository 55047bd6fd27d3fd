// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

func jobStatus() spec {
	return spec{
		usage: "job status [options] [<job>]", synopsis: "Lists jobs, or shows one with its groups and allocations", min: 0, max: 1, output: true,
		setup: func(fs *flag.FlagSet) run {
			short := fs.Bool("short", false, "Only the job itself.")
			evals := fs.Bool("evals", false, "Shows the evaluations of the job.")
			all := fs.Bool("all-allocs", false, "Shows allocations of earlier jobs of this id, too.")
			return func(ctx context.Context, s *session, args []string) error {
				if len(args) == 0 {
					return s.listJobs(ctx)
				}
				job, err := s.findJob(ctx, args[0])
				if err != nil {
					return err
				}
				if done, err := s.formatted(job); done {
					return err
				}
				s.describeJob(job)
				if *short {
					return nil
				}
				return s.describeJobRun(ctx, job, *evals, *all)
			}
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
	header := []string{"ID", "Type", "Priority", "Status", "Submit Date"}
	many := s.cfg.Namespace == "*"
	if many {
		header = append([]string{"Namespace"}, header...)
	}
	var rows [][]string
	for _, j := range jobs {
		status := j.Status
		if j.Stop {
			status += " (stopped)"
		}
		kind := j.Type
		if j.Periodic {
			kind += "/periodic"
		}
		if j.ParameterizedJob {
			kind += "/parameterized"
		}
		row := []string{j.ID, kind, strconv.Itoa(j.Priority), status, date(j.SubmitTime)}
		if many {
			row = append([]string{j.Namespace}, row...)
		}
		rows = append(rows, row)
	}
	s.table(header, rows)
	return nil
}

// findJob reads a job by its id or by a prefix that only one job has.
func (s *session) findJob(ctx context.Context, id string) (*model.Job, error) {
	jobs, _, err := s.client.Jobs(ctx, &client.Query{Prefix: id})
	if err != nil {
		return nil, err
	}
	var match *api.JobListStub
	for _, j := range jobs {
		if j.ID == id && (match == nil || match.ID != id) {
			match = j
		}
	}
	if match == nil {
		switch len(jobs) {
		case 0:
			return nil, fmt.Errorf("no job(s) with prefix or ID %q found", id)
		case 1:
			match = jobs[0]
		default:
			var ids []string
			for _, j := range jobs {
				ids = append(ids, j.ID)
			}
			return nil, fmt.Errorf("prefix %q matches several jobs: %s; give more characters", id, strings.Join(ids, ", "))
		}
	}
	s.client = s.client.WithNamespace(match.Namespace)
	job, _, err := s.client.Job(ctx, match.ID, nil)
	return job, err
}

func (s *session) describeJob(j *model.Job) {
	status := j.Status
	if j.Stop {
		status += " (stopped)"
	}
	s.pairs("ID", j.ID, "Name", j.Name, "Submit Date", date(j.SubmitTime), "Type", j.Type, "Priority", strconv.Itoa(j.Priority),
		"Datacenters", strings.Join(j.Datacenters, ","), "Namespace", j.Namespace, "Node Pool", j.NodePool, "Status", status,
		"Periodic", strconv.FormatBool(j.IsPeriodic()), "Parameterized", strconv.FormatBool(j.IsParameterized()),
		"Version", strconv.FormatUint(j.Version, 10))
}

func (s *session) describeJobRun(ctx context.Context, j *model.Job, withEvals, all bool) error {
	summary, _, err := s.client.JobSummary(ctx, j.ID, nil)
	if err != nil {
		return err
	}
	s.title("\nSummary")
	var rows [][]string
	for _, name := range sortedKeys(summary.Summary) {
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
	}
	allocs, _, err := s.client.JobAllocations(ctx, j.ID, all, nil)
	if err != nil {
		return err
	}
	s.title("\nAllocations")
	s.allocTable(allocs)
	return nil
}

// newestFailures are the reasons of the newest evaluation, if it could not place all.
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
