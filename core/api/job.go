// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// jobOf returns the job that a request names.
func jobOf(v View, q *query) *model.Job { return v.JobByID(q.namespace, q.r.PathValue("id")) }

func theJob(v View, q *query) (*model.Job, error) { return orMissing(jobOf(v, q), "job not found") }

func jobIndex(j *model.Job) uint64 { return j.ModifyIndex }

// bornIndex returns the index at which the job of a query was created or removed. At
// that point the allocs of an earlier job with its name leave the lists, or return to
// them.
func bornIndex(v View, j *model.Job) uint64 {
	if j != nil {
		return j.CreateIndex
	}
	return v.RemovalIndex(state.TableJobs)
}

func dispatchedJob(v View, q *query) (*model.Job, error) {
	j, err := theJob(v, q)
	if err == nil && !j.Dispatched {
		err = fail(http.StatusNotFound, "job was not dispatched, so it has no payload")
	}
	return j, err
}

// showPayload returns the payload of a dispatched job: base64 in JSON, or null.
func showPayload(_ View, _ *query, j *model.Job) result { return shown(JobPayload{Payload: j.Payload}) }

func jobStub(v View, j *model.Job, meta bool) *JobListStub {
	st := &JobListStub{
		ID: j.ID, ParentID: j.ParentID, Name: j.Name, Namespace: j.Namespace, Datacenters: j.Datacenters,
		NodePool: j.NodePool, Multiregion: j.Multiregion, Type: j.Type, Priority: j.Priority,
		Periodic: j.IsPeriodic(), ParameterizedJob: j.IsParameterized(), Stop: j.Stop,
		Status: j.Status, StatusDescription: j.StatusDescription, JobSummary: summaryOf(v, j),
		CreateIndex: j.CreateIndex, ModifyIndex: j.ModifyIndex, JobModifyIndex: j.JobModifyIndex, SubmitTime: j.SubmitTime,
	}
	if meta {
		st.Meta = j.Meta
	}
	return st
}

func summaryOf(v View, j *model.Job) *model.JobSummary {
	sum := v.JobSummary(j.Namespace, j.ID)
	if sum == nil || sum.Children != nil && sum.Summary != nil {
		return sum
	}
	c := *sum
	if c.Children == nil {
		c.Children = &model.JobChildrenSummary{}
	}
	if c.Summary == nil {
		c.Summary = map[string]model.TaskGroupSummary{}
	}
	return &c
}

func listJobs(v View, q *query) result { return jobsWhere(v, q, func(*model.Job) bool { return true }) }

func jobsWhere(v View, q *query, keep func(*model.Job) bool) result {
	prefix, meta := q.prefix(), q.flag("meta")
	p := page[*model.Job]{
		items: v.Jobs(q.stateNamespace()),
		keep:  func(j *model.Job) bool { return strings.HasPrefix(j.ID, prefix) && keep(j) },
		order: func(j *model.Job) order { return order{id: j.Namespace + "." + j.ID} },
	}
	return listOf(q, p, func(j *model.Job) *JobListStub { return jobStub(v, j, meta) })
}

func theSummary(v View, q *query) (*model.JobSummary, error) {
	j, err := theJob(v, q)
	if err != nil {
		return nil, err
	}
	return orMissing(summaryOf(v, j), "job not found")
}

func summaryIndex(s *model.JobSummary) uint64 { return s.ModifyIndex }

func versionsOfJob(v View, q *query) loaded[*model.Job] {
	j, err := theJob(v, q)
	if err != nil {
		return loaded[*model.Job]{err: err}
	}
	return loaded[*model.Job]{rows: v.JobVersions(j.Namespace, j.ID), also: j.ModifyIndex}
}

func showVersions(_ View, q *query, versions []*model.Job) result {
	out := &JobVersionsResponse{Versions: versions, QueryMeta: QueryMeta{Index: q.index, KnownLeader: true}}
	if q.flag("diffs") {
		var err error
		if out.Diffs, err = q.s.versionDiffs(versions, q.r); err != nil {
			return failed(err)
		}
	}
	return shown(out)
}

// versionDiffs compares each version with the previous one, or with the version or tag
// that the request names.
func (s *Server) versionDiffs(versions []*model.Job, r *http.Request) ([]any, error) {
	number, tag := paramsOf(r).get("diff_version"), paramsOf(r).get("diff_tag")
	base := findVersion(versions, number, tag)
	if base == nil && (number != "" || tag != "") {
		return nil, fail(http.StatusBadRequest, "the job has no version "+strconv.Quote(cmp.Or(number, tag))+" to compare with")
	}
	var out []any
	for i, newer := range versions {
		older := base
		if older == nil {
			if i+1 == len(versions) {
				break
			}
			older = versions[i+1]
		} else if older == newer {
			continue
		}
		d, err := s.backend.DiffJobs(older, newer)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

func findVersion(versions []*model.Job, number, tag string) *model.Job {
	for _, j := range versions {
		if number != "" && strconv.FormatUint(j.Version, 10) == number || tag != "" && j.VersionTag != nil && j.VersionTag.Name == tag {
			return j
		}
	}
	return nil
}

func versionOf(r *http.Request) (uint64, error) {
	return strconv.ParseUint(paramsOf(r).get("version"), 10, 64)
}

func checkVersion(r *http.Request) error {
	if _, err := versionOf(r); err != nil {
		return fail(http.StatusBadRequest, "Unable to parse job submission version parameter")
	}
	return nil
}

func theSubmission(v View, q *query) (*model.JobSubmission, error) {
	version, err := versionOf(q.r)
	if err != nil {
		return nil, err
	}
	return orMissing(v.JobSubmission(q.namespace, q.r.PathValue("id"), version), "job source not found")
}

func submissionIndex(s *model.JobSubmission) uint64 { return s.JobModifyIndex }

func allocsOfJob(v View, q *query) loaded[*model.Allocation] {
	j := jobOf(v, q)
	allocs := slices.Clone(v.AllocsByJob(q.namespace, q.r.PathValue("id")))
	if j != nil && !q.flag("all") {
		// Allocs of an earlier job with the same name are not shown.
		allocs = slices.DeleteFunc(allocs, func(a *model.Allocation) bool { return !j.Owns(a) })
	}
	newestFirst(allocs, func(a *model.Allocation) order { return order{a.CreateIndex, a.ID} })
	return loaded[*model.Allocation]{rows: allocs, also: bornIndex(v, j)}
}

func evalsOfJob(v View, q *query) loaded[*model.Evaluation] {
	evals := slices.Clone(v.EvalsByJob(q.namespace, q.r.PathValue("id")))
	newestFirst(evals, func(e *model.Evaluation) order { return order{e.CreateIndex, e.ID} })
	return loaded[*model.Evaluation]{rows: evals}
}

func showEvals(_ View, _ *query, evals []*model.Evaluation) result { return shown(orEmpty(evals)) }

func everyDeploymentOfJob(v View, q *query) loaded[*model.Deployment] {
	return loaded[*model.Deployment]{rows: v.DeploymentsByJob(q.namespace, q.r.PathValue("id"))}
}

func deploymentsOfJob(v View, q *query) loaded[*model.Deployment] {
	j := jobOf(v, q)
	ds := slices.Clone(everyDeploymentOfJob(v, q).rows)
	if j != nil && !q.flag("all") {
		ds = slices.DeleteFunc(ds, func(d *model.Deployment) bool { return d.JobCreateIndex != 0 && d.JobCreateIndex < j.CreateIndex })
	}
	newestFirst(ds, func(d *model.Deployment) order { return order{d.CreateIndex, d.ID} })
	return loaded[*model.Deployment]{rows: ds, also: bornIndex(v, j)}
}

func showDeployments(_ View, _ *query, ds []*model.Deployment) result { return shown(orEmpty(ds)) }

func showLatestDeployment(v View, q *query, _ []*model.Deployment) result {
	return shown(v.LatestDeployment(q.namespace, q.r.PathValue("id")))
}

func showActions(_ View, _ *query, j *model.Job) result {
	out := []*JobAction{}
	for _, tg := range j.TaskGroups {
		for _, t := range tg.Tasks {
			for _, a := range t.Actions {
				out = append(out, &JobAction{Name: a.Name, Command: a.Command, Args: a.Args, TaskName: t.Name, TaskGroupName: tg.Name})
			}
		}
	}
	return shown(out)
}

func scaledAllocs(v View, q *query) loaded[*model.Allocation] {
	j, err := theJob(v, q)
	if err != nil {
		return loaded[*model.Allocation]{err: err}
	}
	index, events := j.ModifyIndex, v.ScalingEvents(j.Namespace, j.ID)
	for _, tg := range j.TaskGroups {
		for _, e := range events[tg.Name] {
			index = max(index, e.CreateIndex)
		}
	}
	return loaded[*model.Allocation]{rows: v.AllocsByJob(j.Namespace, j.ID), also: index}
}

func showScale(v View, q *query, allocs []*model.Allocation) result {
	j := jobOf(v, q)
	out := &JobScaleStatus{JobID: j.ID, Namespace: j.Namespace, JobCreateIndex: j.CreateIndex,
		JobModifyIndex: j.ModifyIndex, JobStopped: j.Stop, TaskGroups: map[string]*GroupScaleStatus{}}
	events := v.ScalingEvents(j.Namespace, j.ID)
	for _, tg := range j.TaskGroups {
		out.TaskGroups[tg.Name] = &GroupScaleStatus{Desired: tg.Count, Events: events[tg.Name]}
	}
	for _, a := range allocs {
		if g := out.TaskGroups[a.TaskGroup]; g != nil && !a.TerminalStatus() && j.Owns(a) {
			g.count(a)
		}
	}
	return shown(out)
}

func (g *GroupScaleStatus) count(a *model.Allocation) {
	g.Placed++
	if a.ClientStatus == model.AllocClientStatusRunning {
		g.Running++
	}
	switch {
	case a.DeploymentStatus.IsHealthy():
		g.Healthy++
	case a.DeploymentStatus.IsUnhealthy():
		g.Unhealthy++
	}
}

func newestFirst[T any](list []T, at func(T) order) {
	slices.SortStableFunc(list, func(a, b T) int { return at(b).compare(at(a)) })
}
