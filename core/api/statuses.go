// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// JobStatus is a job on the jobs page of a UI.
type JobStatus struct {
	ID               string
	Name             string
	Namespace        string
	Type             string
	NodePool         string
	Datacenters      []string
	Priority         int
	Version          uint64
	Status           string
	Stop             bool
	IsPack           bool
	ParentID         string
	SubmitTime       int64
	ModifyIndex      uint64
	GroupCountSum    int
	Allocs           []*JobStatusAlloc
	ChildStatuses    []string
	LatestDeployment *JobStatusDeployment
}

// JobStatusAlloc is an alloc of a JobStatus.
type JobStatusAlloc struct {
	ID               string
	Group            string
	ClientStatus     string
	NodeID           string
	JobVersion       uint64
	FollowupEvalID   string
	HasPausedTask    bool
	DeploymentStatus *JobStatusHealth
}

// JobStatusHealth is the health of an alloc of a JobStatus.
type JobStatusHealth struct {
	Canary  bool
	Healthy *bool
}

// JobStatusDeployment is the deployment of a JobStatus.
type JobStatusDeployment struct {
	ID                string
	IsActive          bool
	JobVersion        uint64
	Status            string
	StatusDescription string
	AllAutoPromote    bool
	RequiresPromotion bool
}

// jobStatuses is the action of both verbs: clients send the jobs that they ask for in a
// body, or none.
var jobStatuses = listAfter(func(r *http.Request, _ *query) (func(View, *query) result, error) {
	var req struct {
		Jobs            []struct{ ID, Namespace string }
		IncludeChildren bool
	}
	if r.Method != http.MethodGet {
		if err := decodeBody(r, &req, true); err != nil {
			return nil, err
		}
	}
	wanted := map[model.JobKey]bool{}
	for _, j := range req.Jobs {
		wanted[model.JobKey{Namespace: j.Namespace, ID: j.ID}] = true
	}
	return func(v View, q *query) result {
		children := q.flag("include_children") || req.IncludeChildren || len(req.Jobs) > 0
		prefix := q.prefix()
		p := page[*model.Job]{
			items: v.Jobs(q.stateNamespace()),
			keep: func(j *model.Job) bool {
				return strings.HasPrefix(j.ID, prefix) && (children || j.ParentID == "") && (len(wanted) == 0 || wanted[j.Key()])
			},
			order:  func(j *model.Job) order { return order{j.ModifyIndex, j.ID} },
			byTime: true, newestFirst: true,
		}
		kids := childStatuses(v, q)
		return listOf(q, p, func(j *model.Job) *JobStatus { return jobStatus(v, j, kids[j.Key()]) })
	}, nil
}, state.TableJobs, state.TableAllocs, state.TableDeployments)

func childStatuses(v View, q *query) map[model.JobKey][]string {
	out := map[model.JobKey][]string{}
	for j := range v.Jobs(q.stateNamespace()) {
		if j.ParentID != "" {
			k := model.JobKey{Namespace: j.Namespace, ID: j.ParentID}
			out[k] = append(out[k], j.Status)
		}
	}
	return out
}

func jobStatus(v View, j *model.Job, children []string) *JobStatus {
	st := &JobStatus{ID: j.ID, Name: j.Name, Namespace: j.Namespace, Type: j.Type, NodePool: j.NodePool,
		Datacenters: j.Datacenters, Priority: j.Priority, Version: j.Version, Status: j.Status, Stop: j.Stop,
		IsPack: j.Meta["pack.name"] != "", ParentID: j.ParentID, SubmitTime: j.SubmitTime, ModifyIndex: j.ModifyIndex,
		Allocs: []*JobStatusAlloc{}, ChildStatuses: children}
	for _, tg := range j.TaskGroups {
		st.GroupCountSum += tg.Count
	}
	if j.IsPeriodic() || j.IsParameterized() {
		st.GroupCountSum = 0
		st.ChildStatuses = orEmpty(children)
	}
	for _, a := range v.AllocsByJob(j.Namespace, j.ID) {
		if j.Owns(a) {
			st.Allocs = append(st.Allocs, jobStatusAlloc(a))
		}
	}
	if d := v.LatestDeployment(j.Namespace, j.ID); d != nil {
		st.LatestDeployment = jobStatusDeployment(d)
	}
	return st
}

func jobStatusAlloc(a *model.Allocation) *JobStatusAlloc {
	out := &JobStatusAlloc{ID: a.ID, Group: a.TaskGroup, ClientStatus: a.ClientStatus, NodeID: a.NodeID,
		JobVersion: a.JobVersion, FollowupEvalID: a.FollowupEvalID}
	if d := a.DeploymentStatus; d != nil {
		out.DeploymentStatus = &JobStatusHealth{Canary: d.Canary, Healthy: d.Healthy}
	}
	for _, t := range a.TaskStates {
		out.HasPausedTask = out.HasPausedTask || t.IsPaused()
	}
	return out
}

func jobStatusDeployment(d *model.Deployment) *JobStatusDeployment {
	out := &JobStatusDeployment{ID: d.ID, IsActive: d.Active(), JobVersion: d.JobVersion, Status: d.Status,
		StatusDescription: d.StatusDescription, RequiresPromotion: d.RequiresPromotion(), AllAutoPromote: len(d.TaskGroups) > 0}
	for _, g := range d.TaskGroups {
		out.AllAutoPromote = out.AllAutoPromote && g.AutoPromote
	}
	return out
}
