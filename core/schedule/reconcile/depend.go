// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
)

// DependView is the part of the state on which it depends whether dependencies of groups and
// jobs are met.
type DependView interface {
	JobByID(namespace, id string) *model.Job
	JobByVersion(namespace, id string, version uint64) *model.Job
	AllocsByJob(namespace, id string) []*model.Allocation
}

// holdOf returns what holds a group of the newest version of a job back, nil if nothing does:
// all that it depends on is as it needs it, or the group has begun. allocs are those of the
// job.
func holdOf(v DependView, job *model.Job, tg *model.TaskGroup, allocs []*model.Allocation, now time.Time) *model.Hold {
	if len(job.DependsOn)+len(tg.DependsOn) == 0 || newSpec(v, job).begun(tg.Name, allocs) {
		return nil
	}
	h := &model.Hold{}
	for _, d := range job.DependsOn {
		if why := jobLacks(v, job.Namespace, d); why != "" {
			addHold(h, d, d.On("job")+": "+why, job, now)
		}
	}
	for _, d := range tg.DependsOn {
		if why := groupsLack(v, job, []*model.TaskGroup{job.LookupTaskGroup(d.Name)}, d.Condition); why != "" {
			addHold(h, d, d.On("group")+": "+why, job, now)
		}
	}
	if len(h.On) == 0 {
		return nil
	}
	return h
}

// addHold adds a dependency that is not met. Its limit is counted from the registration of
// the job's version, so that it is stored, and the same on every server. Of limits that have
// passed the first one counts, else the next one.
func addHold(h *model.Hold, d *model.Dependency, words string, job *model.Job, now time.Time) {
	until := time.Time{}
	if d.Timeout > 0 {
		until = time.Unix(0, job.SubmitTime).UTC().Add(d.Timeout)
	}
	over := !until.IsZero() && !now.Before(until)
	switch {
	case over && !h.Over:
		h.On, h.Until, h.Over = nil, until, true
	case over != h.Over:
		return
	case !until.IsZero() && (h.Until.IsZero() || until.Before(h.Until)):
		h.Until = until
	}
	h.On = append(h.On, words)
}

// Holds returns what holds the groups of a job back that want allocs, by group.
func Holds(v DependView, job *model.Job, now time.Time) map[string]*model.Hold {
	if job.Stopped() || !job.HasHolds() || job.IsParameterized() || job.IsPeriodic() {
		return nil
	}
	out := map[string]*model.Hold{}
	allocs := v.AllocsByJob(job.Namespace, job.ID)
	for _, tg := range job.TaskGroups {
		if h := holdOf(v, job, tg, allocs, now); h != nil && tg.Count > 0 {
			out[tg.Name] = h
		}
	}
	return out
}

// jobLacks says what is missing until a job is as a dependency on it says, "" if it is.
func jobLacks(v DependView, ns string, d *model.Dependency) string {
	switch on := v.JobByID(ns, d.Name); {
	case on == nil:
		return "it does not exist"
	case on.Stop:
		return "it is stopped"
	case on.IsPeriodic() || on.IsParameterized():
		return "it is a template, of which only children run"
	case d.Condition == model.DependencyComplete && !on.Completes():
		return fmt.Sprintf("it never completes, since it is of type %s", on.Type)
	default:
		return groupsLack(v, on, on.TaskGroups, d.Condition)
	}
}

// groupsLack says how many allocs of the groups are as the condition says, "" if all are.
func groupsLack(v DependView, job *model.Job, groups []*model.TaskGroup, condition string) string {
	allocs, spec := v.AllocsByJob(job.Namespace, job.ID), newSpec(v, job)
	have, want, lacks := 0, 0, false
	for _, tg := range groups {
		if tg == nil {
			continue // its version of the job is replaced
		}
		h, w := spec.count(tg, allocs, condition)
		have, want, lacks = have+min(h, w), want+w, lacks || h < w
	}
	if !lacks {
		return ""
	}
	return fmt.Sprintf("%d of %d allocs are", have, want)
}

// spec tells allocs that run the specification of the newest version of a job from others.
type spec struct{ *run }

func newSpec(v DependView, job *model.Job) spec {
	return spec{&run{Input: Input{Job: job, Version: func(version uint64) *model.Job {
		return v.JobByVersion(job.Namespace, job.ID, version)
	}}}}
}

// current reports whether an alloc belongs to what the newest version is: it runs, or has
// run, the same specification, without another one or a stop in between.
func (s spec) current(a *model.Allocation) bool {
	if !s.Job.Owns(a) {
		return false
	}
	return !s.givenUp(a) || !a.TerminalStatus() && SameRuntime(s.jobOf(a), s.Job, a.TaskGroup)
}

// begun reports whether the group has, or had, an alloc of the newest specification. A
// dependency holds back only the first start: what follows is not held back any more.
func (s spec) begun(group string, allocs []*model.Allocation) bool {
	return slices.ContainsFunc(allocs, func(a *model.Allocation) bool { return a.TaskGroup == group && s.current(a) })
}

// count returns how many allocs of a group are as a condition says, and how many must be. A
// job that runs on every node needs those that it has: which nodes it wants is known when
// it is placed.
func (s spec) count(tg *model.TaskGroup, allocs []*model.Allocation, condition string) (have, want int) {
	want = tg.Count
	everywhere := s.Job.Type == model.JobTypeSystem || s.Job.Type == model.JobTypeSysBatch
	places := 0
	for _, a := range allocs {
		if a.TaskGroup != tg.Name || a.ServerTerminalStatus() || a.NextAllocation != "" || !s.Job.Owns(a) {
			continue
		}
		places++
		if s.current(a) && is(a, condition) {
			have++
		}
	}
	if everywhere && want > 0 {
		want = max(1, places)
	}
	return have, want
}

// is reports whether an alloc is as a condition says.
func is(a *model.Allocation, condition string) bool {
	if a.ClientStatus == model.AllocClientStatusComplete {
		return true
	}
	running := a.ClientStatus == model.AllocClientStatusRunning
	switch condition {
	case model.DependencyComplete:
		return false
	case model.DependencyHealthy:
		judged := a.DeploymentID != "" || a.DeploymentStatus != nil && a.DeploymentStatus.Healthy != nil
		return running && (!judged || a.DeploymentStatus.IsHealthy())
	}
	return running
}
