// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule

import (
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
	"github.com/drover-project/drover/core/schedule/rank"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

// DescBlocked is the description of a blocked evaluation.
const DescBlocked = "created to place remaining allocations"

// DescTooMany says why a job with all_at_once is not placed.
const DescTooMany = "job is to be placed all at once and lacks more allocations than one plan may have"

// process is one call of Process.
type process struct {
	view    View
	eval    *model.Evaluation
	job     *model.Job
	now     time.Time
	ids     IDSource
	plan    *model.Plan
	out     *Outcome
	cluster *cluster
	checks  map[*model.TaskGroup]*feasible.Checker
	jobs    map[uint64]*model.Job // versions
	updates map[string]*model.DesiredUpdates
	blocks  []placement // not used yet
	due     int         // how many placements may still be made
	pickers []*rank.Picker
	result  *reconcile.Result
	evicts  *evictions
}

// Process decides what to do for an evaluation, given the state in view.
func Process(view View, eval *model.Evaluation, now time.Time, ids IDSource) *Outcome {
	p := newProcess(view, eval, now, ids)
	p.run()
	p.release()
	return p.out
}

// release gives back what the outcome does not refer to.
func (p *process) release() {
	for _, picker := range p.pickers {
		picker.Release()
	}
	p.result.Release()
	p.pickers, p.result = nil, nil
	p.cluster.give()
}

func newProcess(view View, eval *model.Evaluation, now time.Time, ids IDSource) *process {
	p := &process{
		view: view, eval: eval, job: view.JobByID(eval.Namespace, eval.JobID), now: now, ids: ids,
		checks: map[*model.TaskGroup]*feasible.Checker{}, jobs: map[uint64]*model.Job{},
	}
	p.plan = &model.Plan{
		EvalID: eval.ID, Priority: eval.Priority, Namespace: eval.Namespace, JobID: eval.JobID, Job: p.job,
		SnapshotIndex: view.Index(),
	}
	p.out = &Outcome{Plan: p.plan, QueuedAllocations: map[string]int{}, FailedTGAllocs: map[string]*model.AllocMetric{}}
	if p.job != nil {
		p.plan.AllAtOnce = p.job.AllAtOnce
		if !p.job.Stop {
			for _, tg := range p.job.TaskGroups {
				p.out.QueuedAllocations[tg.Name] = 0
			}
		}
	}
	p.cluster = newCluster(view, p.job)
	p.evicts = newEvictions(p)
	return p
}

func (p *process) run() {
	res := p.reconcile()
	p.result = res
	for group, h := range res.Held {
		p.out.QueuedAllocations[group] += h.Allocs
	}
	if p.plan.AllAtOnce && len(res.Deferred) > 0 {
		p.tooMany()
		return
	}
	p.updates = res.Updates
	p.apply(res)
	p.place(res.Place)
	p.later(res.Deferred)
	p.awaitFirst()
	p.finish(res)
}

// later creates an evaluation for placements that exceed the limit of this one. A
// blocked evaluation needs none, because it processes them too.
func (p *process) later(deferred map[string]int) {
	more := false
	for group, n := range deferred {
		p.out.QueuedAllocations[group] += n
		if failed := p.out.FailedTGAllocs[group]; failed != nil {
			failed.CoalescedFailures += n
		} else {
			more = true
		}
	}
	if more {
		e := p.eval.Next(p.ids.NewID(), model.EvalTriggerQueuedAllocs, p.now)
		e.StatusDescription = DescBlocked
		p.out.FollowUps = append(p.out.FollowUps, e)
	}
}

func (p *process) system() bool {
	t := p.eval.Type
	if p.job != nil {
		t = p.job.Type
	}
	return t == model.JobTypeSystem || t == model.JobTypeSysBatch
}

func (p *process) reconcile() *reconcile.Result {
	job := p.job
	if job != nil && (job.IsParameterized() || job.IsPeriodic()) && !job.Stop {
		return &reconcile.Result{} // a template: only its children run
	}
	in := reconcile.Input{
		Job: job, Allocs: p.view.AllocsByJob(p.eval.Namespace, p.eval.JobID),
		Deployment: p.view.LatestDeployment(p.eval.Namespace, p.eval.JobID),
		Now:        p.now, NewID: p.ids.NewID, Version: p.version, Node: p.view.NodeByID, Feasible: p.feasible, MayStay: p.mayStay,
		Resize: p.resize, RoomInstead: p.roomInstead, Depend: p.view,
	}
	if p.system() {
		return reconcile.System(in, p.cluster.nodes)
	}
	return reconcile.Service(in)
}

// version returns a version of the job.
func (p *process) version(version uint64) *model.Job {
	j, ok := p.jobs[version]
	if !ok {
		j = p.view.JobByVersion(p.eval.Namespace, p.eval.JobID, version)
		p.jobs[version] = j
	}
	return j
}

func (p *process) checker(job *model.Job, tg *model.TaskGroup) *feasible.Checker {
	c := p.checks[tg]
	if c == nil {
		c = feasible.NewChecker(job, tg).WithVolumes(p.view)
		p.checks[tg] = c
	}
	return c
}

// feasible reports whether an alloc of the group in the newest version of the job may be
// placed on n, if n has room.
func (p *process) feasible(tg *model.TaskGroup, n *model.Node) bool {
	return p.reaches(n) && p.checker(p.job, tg).Check(n) == ""
}

// mayStay reports whether an alloc of the group that runs on n may stay there under the
// newest version of the job.
func (p *process) mayStay(tg *model.TaskGroup, n *model.Node) bool {
	return p.reaches(n) && p.checker(p.job, tg).Stays(n) == ""
}

// reaches reports whether the job is for nodes such as n.
func (p *process) reaches(n *model.Node) bool {
	return n != nil && feasible.InPool(n.NodePool, p.job.NodePool) && feasible.InDatacenters(n.Datacenter, p.job.Datacenters)
}

// resize implements reconcile.Input.Resize. A node that takes no allocs resizes none: what
// changes there moves away, as with any other change.
func (p *process) resize(tg *model.TaskGroup, a *model.Allocation) *model.AllocatedResources {
	row, ok := p.cluster.row(a.NodeID)
	if !ok {
		return nil
	}
	over := p.scheduling(p.job).MemoryOversubscription
	out := feasible.Resized(a.AllocatedResources, tg, p.cluster.nodes[row], over)
	if out == nil {
		return nil
	}
	had, more := ask(a.AllocatedResources), ask(out)
	more.CPU, more.Memory, more.Disk = more.CPU-had.CPU, more.Memory-had.Memory, more.Disk-had.Disk
	if p.cluster.cols.Lacking(row, more) != "" {
		return nil
	}
	p.cluster.cols.Use(row, more)
	return out
}

// roomInstead implements reconcile.Input.RoomInstead.
func (p *process) roomInstead(tg *model.TaskGroup, a *model.Allocation) bool {
	if p.cluster.gone[a.NodeID][a.ID] {
		return false
	}
	row, ok := p.cluster.release(a)
	defer p.cluster.restore(a)
	if !ok {
		return false
	}
	over := p.scheduling(p.job).MemoryOversubscription
	res, why := p.cluster.assign(row, p.checker(p.job, tg), tg, a.ID, over)
	return why == "" && p.cluster.cols.Lacking(row, ask(res)) == ""
}

// apply adds everything that needs no node to the plan.
func (p *process) apply(res *reconcile.Result) {
	for _, s := range res.Stop {
		p.stop(s.Alloc, s.Description, s.ClientStatus)
		p.cluster.release(s.Alloc)
	}
	p.plan.Change = append(p.plan.Change, res.Changed...)
	p.plan.Deployment = res.Deployment
	p.plan.DeploymentUpdates = res.DeploymentUpdates
	for _, f := range res.FollowUps {
		e := p.eval.Next(f.ID, f.Trigger, p.now)
		e.StatusDescription, e.WaitUntil = f.Desc, f.WaitUntil
		p.out.FollowUps = append(p.out.FollowUps, e)
	}
}

func (p *process) stop(a *model.Allocation, desc, clientStatus string) {
	c := model.AllocChange{Kind: model.AllocStop, AllocID: a.ID, Description: desc, ClientStatus: clientStatus}
	if clientStatus != "" {
		c.ClientDescription = reconcile.DescLost
	}
	p.plan.Change = append(p.plan.Change, c)
}

// finish sets the new status of the evaluation.
func (p *process) finish(res *reconcile.Result) {
	out := p.out
	out.Annotations = &model.PlanAnnotations{DesiredTGUpdates: res.Updates}
	p.evicts.report()
	p.plan.Annotations = out.Annotations
	e := p.eval.Copy()
	e.Status, e.StatusDescription = model.EvalStatusComplete, ""
	e.SnapshotIndex, e.ModifyTime = p.view.Index(), p.now.UnixNano()
	e.QueuedAllocations, e.PlanAnnotations = out.QueuedAllocations, out.Annotations
	e.FailedTGAllocs, e.MissingNonNodeResources, e.BlockedEval, e.NextEval = nil, nil, "", ""
	e.DeploymentID = p.deploymentID()
	if len(out.FailedTGAllocs) > 0 {
		e.FailedTGAllocs = out.FailedTGAllocs
	}
	if len(out.FollowUps) > 0 {
		e.NextEval = out.FollowUps[0].ID
	}
	out.Eval = e
	waits := p.hold(e, res.Held)
	if !p.mustBlock() && len(waits) == 0 {
		return
	}
	if p.eval.Status == model.EvalStatusBlocked && e.Status != model.EvalStatusFailed { // a retry of a blocked evaluation stays blocked
		e.Status = model.EvalStatusBlocked
		p.block(e)
		return
	}
	b := p.eval.Next(p.ids.NewID(), model.EvalTriggerQueuedAllocs, p.now)
	b.Status, b.Held, b.FailedTGAllocs = model.EvalStatusBlocked, waits, out.FailedTGAllocs
	b.SnapshotIndex = p.view.Index()
	p.block(b)
	e.BlockedEval = b.ID
	out.Blocked = b
}

// mustBlock reports whether a placement waits for resources. A system job that no node
// can run because of constraints waits for new nodes, whose registration creates
// evaluations.
func (p *process) mustBlock() bool {
	for _, m := range p.out.FailedTGAllocs {
		if !p.system() || m.NodesExhausted > 0 {
			return true
		}
	}
	return false
}

// tooMany fails an evaluation that needs more than one plan.
func (p *process) tooMany() {
	e := p.eval.Copy()
	e.Status, e.StatusDescription = model.EvalStatusFailed, DescTooMany
	e.SnapshotIndex, e.ModifyTime = p.view.Index(), p.now.UnixNano()
	p.out.Eval = e
}

// block says what a blocked evaluation waits for, and records which node classes could make
// it succeed.
func (p *process) block(e *model.Evaluation) {
	e.StatusDescription = DescBlocked
	if !e.WaitsForRoom() {
		e.StatusDescription = describe(e.Held)
	}
	e.ClassEligibility = map[string]bool{}
	for tg, c := range p.checks {
		if _, failed := p.out.FailedTGAllocs[tg.Name]; !failed {
			continue
		}
		e.EscapedComputedClass = e.EscapedComputedClass || c.Escaped()
		for class, ok := range c.Classes() {
			e.ClassEligibility[class] = e.ClassEligibility[class] || ok
		}
	}
	if e.EscapedComputedClass { // any node may help, so classes tell nothing
		e.ClassEligibility = nil
	}
	e.MissingNonNodeResources = p.missingVolumes()
}

// missingVolumes names the volumes that do not exist and without which groups are not placed.
func (p *process) missingVolumes() (out []string) {
	for _, m := range p.out.FailedTGAllocs {
		for reason := range m.ConstraintFiltered {
			if id, ok := strings.CutPrefix(reason, feasible.ReasonCSIVolume); ok {
				out = append(out, "csi-volume:"+p.eval.Namespace+":"+id)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (p *process) deploymentID() string {
	if p.plan.Deployment != nil {
		return p.plan.Deployment.ID
	}
	if p.job == nil || p.job.Stop || p.job.Type == model.JobTypeSysBatch {
		return p.eval.DeploymentID
	}
	if d := p.view.LatestDeployment(p.eval.Namespace, p.eval.JobID); d != nil && d.JobVersion == p.job.Version {
		return d.ID
	}
	return p.eval.DeploymentID
}
