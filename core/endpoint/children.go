// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Limits of a dispatch.
const (
	maxPayload      = 16 << 10 // bytes
	maxDispatchMeta = 64 << 10 // bytes of all keys and values
	maxToken        = 256      // bytes of an idempotency token
)

// dispatchPrefix matches valid prefixes of a child's id, which is part of paths.
var dispatchPrefix = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// DispatchJob starts a child of a parameterized job. If the token was already used, it
// returns the existing child.
func (e *Endpoint) DispatchJob(ctx context.Context, req *api.JobDispatchRequest) (*api.JobDispatchResponse, error) {
	if err := e.registrationOpen(); err != nil {
		return nil, err
	}
	parent := e.Store.View().JobByID(req.Namespace, req.JobID)
	switch {
	case parent == nil:
		return nil, errdefs.NotFoundf("parameterized job not found")
	case !parent.IsParameterized():
		return nil, errdefs.FailedPreconditionf("Specified job %q is not a parameterized job", req.JobID)
	case parent.Stop:
		return nil, errdefs.FailedPreconditionf("Specified job %q is stopped", req.JobID)
	}
	if err := e.checkDispatch(parent, req); err != nil {
		return nil, err
	}
	if err := e.Jobs.checkCount(parent); err != nil {
		return nil, err
	}
	if earlier := e.dispatched(req); earlier != nil {
		return earlier, nil
	}
	release, err := e.queueOpen(parent)
	if err != nil {
		return nil, err
	}
	defer release()
	cmd := e.dispatch(parent, req)
	index, err := e.propose(ctx, cmd)
	if errdefs.IsAlreadyExists(err) { // a concurrent dispatch used the token first
		if earlier := e.dispatched(req); earlier != nil {
			return earlier, nil
		}
	}
	if err != nil {
		return nil, err
	}
	out := &api.JobDispatchResponse{DispatchedJobID: cmd.ChildID, JobCreateIndex: index, Index: index}
	if cmd.Eval != nil {
		out.EvalID, out.EvalCreateIndex = cmd.Eval.ID, index
	}
	return out, nil
}

// dispatch returns the command that creates the child.
func (e *Endpoint) dispatch(parent *model.Job, req *api.JobDispatchRequest) *fsm.DispatchJob {
	now := e.Now()
	cmd := &fsm.DispatchJob{
		Namespace: parent.Namespace, ParentID: parent.ID,
		ChildID: model.DispatchedChildID(parent.ID, req.IdPrefixTemplate, now.Unix(), newID()[:8]),
		Payload: req.Payload, Meta: req.Meta, Priority: req.Priority,
		IdempotencyToken: req.IdempotencyToken, SubmitTime: now.UnixNano(),
	}
	if parent.IsPeriodic() { // the child launches children of its own
		return cmd
	}
	cmd.Eval = e.newEval(parent, model.EvalTriggerJobRegister)
	cmd.Eval.JobID = cmd.ChildID
	if req.Priority > 0 {
		cmd.Eval.Priority = req.Priority
	}
	return cmd
}

// dispatched returns the answer for a token that was already used, nil if it was not.
func (e *Endpoint) dispatched(req *api.JobDispatchRequest) *api.JobDispatchResponse {
	view := e.Store.View()
	child := view.JobByDispatchToken(req.Namespace, req.JobID, req.IdempotencyToken)
	if child == nil {
		return nil
	}
	out := &api.JobDispatchResponse{DispatchedJobID: child.ID, JobCreateIndex: child.CreateIndex, Index: child.CreateIndex}
	for _, ev := range view.EvalsByJob(child.Namespace, child.ID) {
		if out.EvalID == "" || ev.CreateIndex < out.EvalCreateIndex {
			out.EvalID, out.EvalCreateIndex = ev.ID, ev.CreateIndex
		}
	}
	return out
}

func (e *Endpoint) checkDispatch(parent *model.Job, req *api.JobDispatchRequest) error {
	p := parent.ParameterizedJob
	switch {
	case p.Payload == "required" && len(req.Payload) == 0:
		return errdefs.InvalidArgumentf("Payload is not provided but required by parameterized job")
	case p.Payload == "forbidden" && len(req.Payload) > 0:
		return errdefs.InvalidArgumentf("Payload provided but forbidden by parameterized job")
	case len(req.Payload) > maxPayload:
		return errdefs.InvalidArgumentf("Payload exceeds maximum size; %d > %d", len(req.Payload), maxPayload)
	case req.Priority < 0 || req.Priority > e.Jobs.maxPriority():
		return errdefs.InvalidArgumentf("dispatch priority must be between [%d, %d], or 0 for that of the job", model.JobMinPriority, e.Jobs.maxPriority())
	case req.IdPrefixTemplate != "" && !dispatchPrefix.MatchString(req.IdPrefixTemplate):
		return errdefs.InvalidArgumentf("id prefix template %q is invalid: it must match %s", req.IdPrefixTemplate, dispatchPrefix)
	case len(req.IdempotencyToken) > maxToken || strings.ContainsRune(req.IdempotencyToken, 0):
		return errdefs.InvalidArgumentf("the idempotency token is longer than %d bytes or contains a null character", maxToken)
	}
	return checkDispatchMeta(p, req.Meta)
}

// checkDispatchMeta returns an error that lists all keys that are not allowed or
// missing.
func checkDispatchMeta(p *model.ParameterizedJobConfig, meta map[string]string) error {
	var unknown, missing []string
	size := 0
	for k, v := range meta {
		size += len(k) + len(v)
		if !slices.Contains(p.MetaRequired, k) && !slices.Contains(p.MetaOptional, k) {
			unknown = append(unknown, k)
		}
	}
	for _, k := range p.MetaRequired {
		if _, ok := meta[k]; !ok {
			missing = append(missing, k)
		}
	}
	slices.Sort(unknown)
	switch {
	case size > maxDispatchMeta:
		return errdefs.InvalidArgumentf("Dispatch metadata exceeds maximum size; %d > %d", size, maxDispatchMeta)
	case len(unknown) > 0:
		return errdefs.InvalidArgumentf("Dispatch request included unpermitted metadata keys: %v", unknown)
	case len(missing) > 0:
		return errdefs.InvalidArgumentf("Dispatch did not provide required meta keys: %v", missing)
	}
	return nil
}

// ForcePeriodic launches a child of a periodic job now, regardless of its schedule and
// earlier children.
func (e *Endpoint) ForcePeriodic(ctx context.Context, ns, jobID string) (*api.EvalResponse, error) {
	parent, err := e.job(ns, jobID)
	if err != nil {
		return nil, err
	}
	switch {
	case !parent.IsPeriodic():
		return nil, errdefs.FailedPreconditionf("can't force launch non-periodic job")
	case parent.Stop:
		return nil, errdefs.FailedPreconditionf("can't force launch stopped job %q: register it again", jobID)
	case !parent.IsPeriodicActive():
		return nil, errdefs.FailedPreconditionf("can't force launch job %q: its periodic block is not enabled", jobID)
	}
	if err := e.Jobs.checkCount(parent); err != nil {
		return nil, err
	}
	release, err := e.queueOpen(parent)
	if err != nil {
		return nil, err
	}
	defer release()
	now := e.Now()
	eval := e.newEval(parent, model.EvalTriggerPeriodicJob)
	eval.JobID = model.PeriodicChildID(jobID, now.Unix())
	index, err := e.propose(ctx, &fsm.LaunchPeriodic{
		Namespace: ns, ParentID: jobID, Launch: now.UnixNano(), Force: true, SubmitTime: now.UnixNano(), Eval: eval,
	})
	if err != nil {
		return nil, err
	}
	return &api.EvalResponse{EvalID: eval.ID, EvalCreateIndex: index, Index: index}, nil
}
