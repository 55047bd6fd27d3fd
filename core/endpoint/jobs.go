// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// parseTimeout limits the parsing of one job file.
const parseTimeout = 10 * time.Second

// ParseJob returns the draft of a job file; with Canonicalize, defaults are filled in.
func (e *Endpoint) ParseJob(ctx context.Context, req *api.JobParseRequest) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, parseTimeout)
	defer cancel()
	opts := jobspec.Options{Context: ctx}
	if req.Variables != "" {
		opts.VarFiles = []jobspec.VarFile{{Name: "variables.hcl", Content: []byte(req.Variables)}}
	}
	draft, err := jobspec.ParseHCL([]byte(req.JobHCL), opts)
	if err != nil {
		return nil, err
	}
	if req.Canonicalize {
		return draft.Canonicalized()
	}
	return draft, nil
}

// canonical decodes a draft and fills in its defaults. The request's namespace is used
// if the job names none.
func (e *Endpoint) canonical(body json.RawMessage, ns string) (*model.Job, error) {
	if len(body) == 0 || string(body) == "null" {
		return nil, errdefs.InvalidArgumentf("Job must be specified")
	}
	draft, err := jobspec.ParseJSON(body)
	if err != nil {
		return nil, &api.ShapeError{Err: err}
	}
	if p := e.Jobs.DefaultPriority; p > 0 && (draft.Priority == nil || *draft.Priority == 0) {
		draft.Priority = &p
	}
	if ns != "" && (draft.Namespace == nil || *draft.Namespace == "") {
		draft.Namespace = &ns
	}
	e.nameNodePool(draft)
	job, err := draft.Canonical()
	if err != nil {
		return nil, err
	}
	switch job.Region {
	case model.DefaultRegion: // the region that clients send if the job names none
		job.Region = e.Region
	case e.Region:
	default:
		return nil, errdefs.InvalidArgumentf("No path to region: job %q is for region %q, and these servers are of region %q", job.ID, job.Region, e.Region)
	}
	e.addIdentities(job)
	return job, nil
}

// admit returns an error for problems that depend on the state: missing objects to
// which the job refers, and changes that are not possible.
func (e *Endpoint) admit(job *model.Job) error {
	view := e.Store.View()
	if view.NamespaceByName(job.Namespace) == nil {
		return errdefs.InvalidArgumentf("job %q is in nonexistent namespace %q", job.ID, job.Namespace)
	}
	if job.NodePool != model.NodePoolAll && view.NodePoolByName(job.NodePool) == nil {
		return errdefs.InvalidArgumentf("job %q is in nonexistent node pool %q", job.ID, job.NodePool)
	}
	if err := e.admitByNamespace(job); err != nil {
		return err
	}
	if err := e.admitTimes(job); err != nil {
		return err
	}
	if err := job.CheckDependencies(e.neighbours(job)); err != nil {
		return errdefs.New(errdefs.FailedPrecondition, err)
	}
	old := view.JobByID(job.Namespace, job.ID)
	switch {
	case old == nil:
		return nil
	case old.Type != job.Type:
		return errdefs.InvalidArgumentf("cannot update job from type %q to %q", old.Type, job.Type)
	case old.IsPeriodic() != job.IsPeriodic():
		return errdefs.InvalidArgumentf("cannot update non-periodic job to being periodic or back; register it under another id")
	case old.IsParameterized() != job.IsParameterized():
		return errdefs.InvalidArgumentf("cannot update non-parameterized job to being parameterized or back; register it under another id")
	}
	return nil
}

// neighbours returns the jobs of the namespace of a job by id.
func (e *Endpoint) neighbours(job *model.Job) func(id string) *model.Job {
	view := e.Store.View()
	return func(id string) *model.Job { return view.JobByID(job.Namespace, id) }
}

// admitTimes rejects a periodic job that will never launch again.
func (e *Endpoint) admitTimes(job *model.Job) error {
	if !job.IsPeriodicActive() {
		return nil
	}
	s, err := job.Periodic.Schedule()
	if err != nil {
		return errdefs.InvalidArgumentf("periodic block of job %q: %w", job.ID, err)
	}
	if s.Next(e.Now()).IsZero() {
		return errdefs.InvalidArgumentf("periodic job %q would never be launched: all times of its cron specs are over", job.ID)
	}
	return nil
}

// ValidateJob validates a job without registering it.
func (e *Endpoint) ValidateJob(ctx context.Context, req *api.JobValidateRequest) (*api.JobValidateResponse, error) {
	job, err := e.canonical(req.Job, req.Namespace)
	if err != nil {
		return nil, err
	}
	found, err := e.check(ctx, job, req.Job)
	if err == nil {
		err = e.admit(job)
	}
	if err == nil {
		err = e.Jobs.checkCount(job)
	}
	warnings := append(found.warnings, job.MissingDependencies(e.neighbours(job))...)
	out := &api.JobValidateResponse{DriverConfigValidated: true, Warnings: jobspec.WarningText(job, warnings...), Findings: found.findings}
	if err != nil {
		out.Error = err.Error()
		out.ValidationErrors = model.Problems(err)
	}
	return out, nil
}

// RegisterJob stores a job and creates an evaluation.
func (e *Endpoint) RegisterJob(ctx context.Context, req *api.JobRegisterRequest) (*api.JobRegisterResponse, error) {
	if err := e.registrationOpen(); err != nil {
		return nil, err
	}
	if err := e.Jobs.checkEvalPriority(req.EvalPriority); err != nil {
		return nil, err
	}
	job, err := e.canonical(req.Job, req.Namespace)
	if err != nil {
		return nil, err
	}
	if req.JobID != "" && req.JobID != job.ID {
		return nil, errdefs.InvalidArgumentf("Job ID does not match name")
	}
	found, err := e.check(ctx, job, req.Job)
	if err != nil {
		return nil, errdefs.New(errdefs.FailedPrecondition, err)
	}
	if err := e.admit(job); err != nil {
		return nil, err
	}
	preserve(job, e.Store.View().JobByID(job.Namespace, job.ID), req)
	if err := e.Jobs.checkCount(job); err != nil {
		return nil, errdefs.New(errdefs.FailedPrecondition, err)
	}
	warnings := append(found.warnings, e.Jobs.keepSource(req)...)
	warnings = append(warnings, job.MissingDependencies(e.neighbours(job))...)
	out, err := e.register(ctx, job, model.EvalTriggerJobRegister, req)
	if err != nil {
		return nil, err
	}
	out.Warnings, out.Findings = jobspec.WarningText(job, warnings...), found.findings
	return out, nil
}

// register proposes the job with its first eval. Periodic and parameterized jobs get
// none, because only their children run.
func (e *Endpoint) register(ctx context.Context, job *model.Job, trigger string, req *api.JobRegisterRequest) (*api.JobRegisterResponse, error) {
	cmd := e.registration(job, trigger, req)
	if cmd.Eval != nil {
		release, err := e.queueOpen(job)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	return e.proposeRegistration(ctx, cmd, cmd)
}

// registration returns the command that stores a job with its first eval.
func (e *Endpoint) registration(job *model.Job, trigger string, req *api.JobRegisterRequest) *fsm.UpsertJob {
	job.SubmitTime = e.Now().UnixNano()
	keepScalingIDs(job, e.Store.View().JobByID(job.Namespace, job.ID))
	cmd := &fsm.UpsertJob{Job: job, Submission: req.Submission, EnforceIndex: req.EnforceIndex, JobModifyIndex: req.JobModifyIndex}
	if !job.IsPeriodic() && !job.IsParameterized() {
		cmd.Eval = e.newEval(job, trigger)
		if req.EvalPriority != 0 {
			cmd.Eval.Priority = req.EvalPriority
		}
	}
	return cmd
}

// proposeRegistration proposes whole, which is or contains the registration cmd.
func (e *Endpoint) proposeRegistration(ctx context.Context, whole fsm.Command, cmd *fsm.UpsertJob) (*api.JobRegisterResponse, error) {
	registered, index, err := propose.Answered[uint64](ctx, e.Raft, whole)
	if err != nil {
		return nil, err
	}
	out := &api.JobRegisterResponse{JobModifyIndex: registered}
	out.Index = index
	if cmd.Eval != nil {
		out.EvalID, out.EvalCreateIndex = cmd.Eval.ID, index
	}
	return out, nil
}

// DeregisterJob stops a job; with Purge it also removes it.
func (e *Endpoint) DeregisterJob(ctx context.Context, req *api.JobDeregisterRequest) (*api.JobDeregisterResponse, error) {
	out := &api.JobDeregisterResponse{}
	if err := e.Jobs.checkEvalPriority(req.EvalPriority); err != nil {
		return nil, err
	}
	job := e.Store.View().JobByID(req.Namespace, req.JobID)
	if job == nil {
		return out, nil
	}
	cmd := &fsm.DeregisterJob{Namespace: job.Namespace, ID: job.ID, Purge: req.Purge, SubmitTime: e.Now().UnixNano()}
	if !job.IsPeriodic() && !job.IsParameterized() {
		cmd.Eval = e.newEval(job, model.EvalTriggerJobDeregister)
		if req.EvalPriority != 0 {
			cmd.Eval.Priority = req.EvalPriority
		}
	}
	cmds := []fsm.Command{cmd}
	if req.NoShutdownDelay {
		cmds = append([]fsm.Command{e.skipShutdownDelay(job)}, cmds...)
	}
	index, err := e.propose(ctx, batch(cmds))
	if err != nil {
		return nil, err
	}
	out.Index, out.JobModifyIndex = index, index
	if cmd.Eval != nil {
		out.EvalID, out.EvalCreateIndex = cmd.Eval.ID, index
	}
	return out, nil
}

func batch(cmds []fsm.Command) fsm.Command {
	if len(cmds) == 1 {
		return cmds[0]
	}
	return &fsm.Batch{Commands: cmds}
}

func (e *Endpoint) skipShutdownDelay(job *model.Job) fsm.Command {
	yes := true
	cmd := &fsm.UpdateDesiredTransitions{Transitions: map[string]model.DesiredTransition{}}
	for _, a := range e.Store.View().AllocsByJob(job.Namespace, job.ID) {
		if !a.TerminalStatus() {
			t := a.DesiredTransition
			t.NoShutdownDelay = &yes
			cmd.Transitions[a.ID] = t
		}
	}
	return cmd
}

// job returns a job that must exist.
func (e *Endpoint) job(ns, id string) (*model.Job, error) {
	job := e.Store.View().JobByID(ns, id)
	if job == nil {
		return nil, errdefs.NotFoundf("job not found")
	}
	return job, nil
}

// EvaluateJob creates an evaluation of a job. ForceReschedule replaces failed allocs
// now, including lost ones that would not be replaced.
func (e *Endpoint) EvaluateJob(ctx context.Context, req *api.JobEvaluateRequest) (*api.JobRegisterResponse, error) {
	job, err := e.job(req.Namespace, req.JobID)
	if err != nil {
		return nil, err
	}
	if job.IsPeriodic() {
		return nil, errdefs.FailedPreconditionf("can't evaluate periodic job")
	}
	if job.IsParameterized() {
		return nil, errdefs.FailedPreconditionf("can't evaluate parameterized job")
	}
	release, err := e.queueOpen(job)
	if err != nil {
		return nil, err
	}
	defer release()
	eval := e.newEval(job, model.EvalTriggerJobRegister)
	cmd := &fsm.UpdateDesiredTransitions{Transitions: map[string]model.DesiredTransition{}, Evals: []*model.Evaluation{eval}}
	if req.EvalOptions.ForceReschedule {
		yes := true
		for _, a := range e.Store.View().AllocsByJob(job.Namespace, job.ID) {
			if a.ClientStatus == model.AllocClientStatusFailed && !a.ServerTerminalStatus() || a.ClientStatus == model.AllocClientStatusLost && a.NextAllocation == "" {
				t := a.DesiredTransition
				t.ForceReschedule = &yes
				cmd.Transitions[a.ID] = t
			}
		}
	}
	index, err := e.propose(ctx, cmd)
	if err != nil {
		return nil, err
	}
	out := &api.JobRegisterResponse{EvalID: eval.ID, EvalCreateIndex: index, JobModifyIndex: job.JobModifyIndex}
	out.Index = index
	return out, nil
}

// RevertJob reverts a job to an older version.
func (e *Endpoint) RevertJob(ctx context.Context, req *api.JobRevertRequest) (*api.JobRegisterResponse, error) {
	if err := e.registrationOpen(); err != nil {
		return nil, err
	}
	view := e.Store.View()
	cur := view.JobByID(req.Namespace, req.JobID)
	if cur == nil {
		return nil, errdefs.FailedPreconditionf("job %q not found", req.JobID)
	}
	version := req.JobVersion
	if req.TaggedVersion != "" {
		tagged := taggedVersion(view.JobVersions(req.Namespace, req.JobID), req.TaggedVersion)
		if tagged == nil {
			return nil, errdefs.FailedPreconditionf("tag %q not found for job %q", req.TaggedVersion, req.JobID)
		}
		version = tagged.Version
	}
	if version == cur.Version {
		return nil, errdefs.FailedPreconditionf("can't revert to current version")
	}
	if p := req.EnforcePriorVersion; p != nil && *p != cur.Version {
		return nil, errdefs.FailedPreconditionf("Current job has version %d; enforcing version %d", cur.Version, *p)
	}
	old := view.JobByVersion(req.Namespace, req.JobID, version)
	if old == nil {
		return nil, errdefs.FailedPreconditionf("job %q in namespace %q at version %d not found", req.JobID, req.Namespace, version)
	}
	job := old.Copy()
	job.Stop, job.Stable, job.VersionTag = false, false, nil
	if err := e.admitByNamespace(job); err != nil {
		return nil, err
	}
	if err := e.Jobs.checkCount(job); err != nil {
		return nil, errdefs.New(errdefs.FailedPrecondition, err)
	}
	sub := view.JobSubmission(req.Namespace, req.JobID, version)
	out, err := e.register(ctx, job, model.EvalTriggerJobRegister, &api.JobRegisterRequest{Submission: sub, EnforceIndex: true, JobModifyIndex: cur.JobModifyIndex})
	if err != nil {
		return nil, err
	}
	out.Warnings = jobspec.WarningText(job, unproven(view, old)...)
	return out, nil
}

// unproven returns a warning for a version whose last deployment has failed. Going back to it is not refused: the
// failure may have had another reason than the version.
func unproven(view *state.View, old *model.Job) []string {
	var last *model.Deployment
	for _, d := range view.DeploymentsByJob(old.Namespace, old.ID) {
		if d.JobVersion == old.Version && d.JobCreateIndex == old.CreateIndex && (last == nil || d.CreateIndex > last.CreateIndex) {
			last = d
		}
	}
	if old.Stable || last == nil || last.Status != model.DeploymentStatusFailed {
		return nil
	}
	return []string{fmt.Sprintf("version %d is not stable: its deployment %s has failed (%s)", old.Version, last.ID[:min(8, len(last.ID))], last.StatusDescription)}
}

func taggedVersion(versions []*model.Job, tag string) *model.Job {
	for _, j := range versions {
		if j.VersionTag != nil && j.VersionTag.Name == tag {
			return j
		}
	}
	return nil
}

// SetJobStability marks a version as stable or not.
func (e *Endpoint) SetJobStability(ctx context.Context, req *api.JobStabilityRequest) (*api.IndexResponse, error) {
	index, err := e.propose(ctx, &fsm.SetJobStability{Namespace: req.Namespace, ID: req.JobID, Version: req.JobVersion, Stable: req.Stable})
	return &api.IndexResponse{Index: index}, err
}

// TagJobVersion adds a tag to a version, or removes it.
func (e *Endpoint) TagJobVersion(ctx context.Context, req *api.JobTagRequest) (*api.IndexResponse, error) {
	job, err := e.job(req.Namespace, req.JobID)
	if err != nil {
		return nil, err
	}
	cmd := &fsm.SetJobVersionTag{Namespace: req.Namespace, ID: req.JobID, Version: job.Version}
	existing := taggedVersion(e.Store.View().JobVersions(req.Namespace, req.JobID), req.Name)
	switch {
	case req.Delete && existing == nil:
		return nil, errdefs.NotFoundf("tag %q not found on job %q", req.Name, req.JobID)
	case req.Delete:
		cmd.Version = existing.Version
	default:
		if req.Version != nil {
			cmd.Version = *req.Version
		}
		if existing != nil && existing.Version != cmd.Version {
			return nil, errdefs.AlreadyExistsf("tag %q already exists on a different version of job %q", req.Name, req.JobID)
		}
		cmd.Tag = &model.JobVersionTag{Name: req.Name, Description: req.Description, TaggedTime: e.Now().UnixNano()}
		if err := model.OperatorBounds.Check("the tag of job "+req.JobID+": ", cmd.Tag); err != nil {
			return nil, err
		}
	}
	index, err := e.propose(ctx, cmd)
	return &api.IndexResponse{Index: index}, err
}

// DiffJobs compares two versions.
func (e *Endpoint) DiffJobs(older, newer *model.Job) (any, error) {
	return model.DiffJobs(older, newer)
}
