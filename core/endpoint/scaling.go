// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"
	"strings"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// preserve keeps values of the old job that a registration asks to preserve, by the
// names of groups and tasks: counts, which scaling may have changed, and resources.
func preserve(job, old *model.Job, req *api.JobRegisterRequest) {
	if old == nil {
		return
	}
	for _, tg := range job.TaskGroups {
		was := old.LookupTaskGroup(tg.Name)
		if was == nil {
			continue
		}
		if req.PreserveCounts {
			tg.Count = was.Count
		}
		if !req.PreserveResources {
			continue
		}
		for _, t := range tg.Tasks {
			if before := was.LookupTask(t.Name); before != nil && before.Resources != nil {
				t.Resources = before.Resources // shared: the resources of a stored job never change
			}
		}
	}
}

// checkTarget refuses a target that is not a group of the job: nothing else is scaled.
func checkTarget(job *model.Job, target map[string]string) error {
	for key, own := range map[string]string{"Namespace": job.Namespace, "Job": job.ID, "Task": ""} {
		switch given := target[key]; {
		case given == "" || given == own:
		case key == "Task":
			return errdefs.InvalidArgumentf("the target names task %q; only the count of a group can be scaled", given)
		default:
			return errdefs.InvalidArgumentf("the target's %s is %q, and the request is for job %q in namespace %q", strings.ToLower(key), given, job.ID, job.Namespace)
		}
	}
	return nil
}

// ScaleJob sets the count of a group, or records a message about it.
func (e *Endpoint) ScaleJob(ctx context.Context, req *api.JobScaleRequest) (*api.JobRegisterResponse, error) {
	if err := e.registrationOpen(); err != nil {
		return nil, err
	}
	cur, err := e.job(req.Namespace, req.JobID)
	if err != nil {
		return nil, err
	}
	if err := checkTarget(cur, req.Target); err != nil {
		return nil, err
	}
	group := req.Target["Group"]
	if group == "" {
		group = req.Target["group"]
	}
	was := cur.LookupTaskGroup(group)
	if was == nil {
		return nil, errdefs.InvalidArgumentf("task group %q specified for scaling does not exist in job", group)
	}
	if req.Error && req.Count != nil {
		return nil, errdefs.InvalidArgumentf("scaling action should not contain count if error is true")
	}
	cmd := &fsm.ScaleJob{Namespace: cur.Namespace, JobID: cur.ID, Group: group, Event: &model.ScalingEvent{
		Time: e.Now().UnixNano(), Count: req.Count, PreviousCount: int64(was.Count), Error: req.Error, Message: req.Message, Meta: req.Meta,
	}}
	if err := model.OperatorBounds.Check("the scaling of "+group+": ", cmd.Event); err != nil {
		return nil, err
	}
	if req.Count == nil {
		index, err := e.propose(ctx, cmd)
		out := &api.JobRegisterResponse{JobModifyIndex: cur.JobModifyIndex}
		out.Index = index
		return out, err
	}
	if err := checkScale(cur, was, *req.Count); err != nil {
		return nil, err
	}
	job := cur.Copy()
	job.LookupTaskGroup(group).Count = int(*req.Count)
	if err := e.Jobs.checkCount(job); err != nil {
		return nil, err
	}
	if !req.EnforceIndex {
		req.JobModifyIndex = cur.JobModifyIndex
	}
	cmd.Register = e.registration(job, model.EvalTriggerScaling, &api.JobRegisterRequest{EnforceIndex: true, JobModifyIndex: req.JobModifyIndex})
	if cmd.Register.Eval != nil && int(*req.Count) > was.Count { // fewer allocs make room
		release, err := e.queueOpen(job)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	if cmd.Register.Eval != nil {
		cmd.Event.EvalID = &cmd.Register.Eval.ID
	}
	out, err := e.proposeRegistration(ctx, cmd, cmd.Register)
	if err == nil {
		out.KnownLeader = true
	}
	return out, err
}

func checkScale(job *model.Job, tg *model.TaskGroup, count int64) error {
	p := tg.Scaling
	switch {
	case count < 0:
		return errdefs.InvalidArgumentf("scaling action count can't be negative")
	case (job.Type == model.JobTypeSystem || job.Type == model.JobTypeSysBatch) && count > 1:
		return errdefs.InvalidArgumentf("groups of %s jobs can only be scaled between 0 and 1", job.Type)
	case p == nil:
	case count > p.Max:
		return errdefs.InvalidArgumentf("group count was greater than scaling policy maximum: %d > %d", count, p.Max)
	case count < p.Min:
		return errdefs.InvalidArgumentf("group count was less than scaling policy minimum: %d < %d", count, p.Min)
	}
	return nil
}
