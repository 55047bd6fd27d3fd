// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
)

// derived collects the changes of derived rows that the writes of one log entry cause.
// settle writes them at the end of the entry.
type derived struct {
	jobs        map[string]*summaryRow // new values, by job key
	usage       map[string]*usageRow   // differences, by node
	deployments map[string]*model.Deployment
	priced      map[*model.AllocatedResources]model.ComparableResources
	services    map[string]bool     // ids of allocs whose registrations may have changed
	healthy     []*model.Allocation // those that became healthy in their deployment
}

// summaryOf returns the job's new counts, which the caller may change.
func (tx *Tx) summaryOf(ns, id string) *summaryRow {
	key := JobKey(ns, id)
	if row := tx.derived.jobs[key]; row != nil {
		return row
	}
	row := &summaryRow{Namespace: ns, JobID: id, CreateIndex: tx.index}
	if old := summaryTable.in(tx.t).get(key); old != nil {
		*row = *old
	}
	row.Groups = maps.Clone(row.Groups)
	if tx.derived.jobs == nil {
		tx.derived.jobs = map[string]*summaryRow{}
	}
	tx.derived.jobs[key] = row
	return row
}

// touchJob makes settle derive the job's status again.
func (tx *Tx) touchJob(ns, id string) { tx.summaryOf(ns, id) }

func (tx *Tx) blockedEvals(ns, id string) int { return tx.summaryOf(ns, id).Blocked }

// accountEval updates the job's counts of evals.
func (tx *Tx) accountEval(old, e *model.Evaluation) {
	any := e
	if any == nil {
		any = old
	}
	if tx.restore || any.JobID == "" {
		return
	}
	row := tx.summaryOf(any.Namespace, any.JobID)
	count := func(e *model.Evaluation, by int) {
		if e == nil {
			return
		}
		row.Evals += by
		if !e.TerminalStatus() {
			row.LiveEvals += by
		}
		if e.Status == model.EvalStatusBlocked {
			row.Blocked += by
		}
	}
	count(old, -1)
	count(e, 1)
}

// accountAlloc updates all values that are derived from allocs.
func (tx *Tx) accountAlloc(old, a *model.Allocation) {
	tx.accountUsage(old, -1)
	tx.accountUsage(a, 1)
	tx.accountServices(old, a)
	tx.accountHolds(old, a)
	if tx.restore {
		return
	}
	if old != nil {
		tx.countAlloc(old, -1)
	}
	if a != nil {
		tx.countAlloc(a, 1)
		tx.accountDeployment(old, a)
	}
}

func (tx *Tx) countAlloc(a *model.Allocation, by int) {
	row := tx.summaryOf(a.Namespace, a.JobID)
	row.Allocs += by
	if row.former(a) {
		return
	}
	if !a.TerminalStatus() {
		row.LiveAllocs += by
	}
	counts := row.Groups[a.TaskGroup]
	counts[countOf(a.ClientStatus)] += by
	if row.Groups == nil {
		row.Groups = map[string]groupCounts{}
	}
	if counts == (groupCounts{}) {
		delete(row.Groups, a.TaskGroup)
		return
	}
	row.Groups[a.TaskGroup] = counts
}

func (tx *Tx) accountUsage(a *model.Allocation, by int64) {
	if a == nil || a.NodeID == "" || a.AllocatedResources == nil || a.ClientTerminalStatus() {
		return
	}
	if tx.derived.usage == nil {
		tx.derived.usage = map[string]*usageRow{}
		tx.derived.priced = map[*model.AllocatedResources]model.ComparableResources{}
	}
	r, ok := tx.derived.priced[a.AllocatedResources]
	if !ok {
		r = a.AllocatedResources.Comparable()
		tx.derived.priced[a.AllocatedResources] = r
	}
	u := tx.derived.usage[a.NodeID]
	if u == nil {
		u = &usageRow{NodeID: a.NodeID}
		tx.derived.usage[a.NodeID] = u
	}
	u.CPU += by * r.CPUShares
	u.Mem += by * r.MemoryMB
	u.Disk += by * r.DiskMB
	u.Allocs += int(by)
}

// levelFirstAlloc is the lowest capability level at which the first alloc of a deployment
// restarts its progress deadline. The scheduler begins the deadline with the deployment.
const levelFirstAlloc = 2

// levelLoss is the level from which on the loss of a healthy alloc restarts the progress
// deadline.
const levelLoss = 2

// levelSetback is the level from which on an alloc that fails after it was healthy, and what
// becomes healthy in its place, do not restart the progress deadline.
const levelSetback = 2

// accountDeployment updates the counters of the alloc's deployment.
func (tx *Tx) accountDeployment(old, a *model.Allocation) {
	if a.DeploymentID == "" {
		return
	}
	placed := old == nil || old.DeploymentID != a.DeploymentID
	var before, after health
	after.of(a)
	if !placed {
		before.of(old)
	}
	if !placed && before == after {
		return
	}
	if !placed && !tx.activeDeployment(a.DeploymentID) {
		return // an ended deployment keeps its final counts
	}
	d, g := tx.deploymentGroup(a)
	if g == nil {
		return
	}
	d.ModifyTime = max(d.ModifyTime, a.ModifyTime)
	g.HealthyAllocs += as01(after.counts()) - as01(before.counts())
	g.UnhealthyAllocs += as01(after.unhealthy) - as01(before.unhealthy)
	if placed {
		g.PlacedAllocs++
		if a.DeploymentStatus.IsCanary() {
			g.PlacedCanaries = append(g.PlacedCanaries, a.ID)
		}
		// The first alloc has the whole time, however long it has waited for room.
		if g.RequireProgressBy.IsZero() || g.PlacedAllocs == 1 && tx.View().Level() >= levelFirstAlloc {
			g.progress(time.Unix(0, a.ModifyTime))
		}
	}
	if after.healthy && !before.healthy {
		tx.derived.healthy = append(tx.derived.healthy, a)
	}
	if before.counts() && !after.counts() && tx.View().Level() >= levelLoss && !tx.setback(a, g) {
		g.progress(time.Unix(0, a.ModifyTime))
	}
}

// setback reports whether a healthy alloc has failed while its deadline was running. A group that
// was complete, or whose canaries waited for their promotion, had none: what replaces the alloc
// has the whole time, as what replaces a lost one.
func (tx *Tx) setback(a *model.Allocation, g *groupProgress) bool {
	before := g.HealthyAllocs + 1
	waited := g.DesiredCanaries > 0 && !g.Promoted && before >= g.DesiredCanaries
	complete := before >= g.DesiredTotal && (g.DesiredCanaries == 0 || g.Promoted)
	return a.ClientStatus == model.AllocClientStatusFailed && !waited && !complete && tx.View().Level() >= levelSetback
}

// maxRegained is through how many earlier allocs of a place regains looks.
const maxRegained = 32

// settleProgress restarts the progress deadline for an alloc that became healthy, unless another
// one of the deployment was healthy in its place and failed: otherwise allocs that become healthy
// and fail, again and again, would keep the deployment open for ever.
func (tx *Tx) settleProgress(a *model.Allocation) {
	if _, g := tx.deploymentGroup(a); g != nil && !tx.regains(a) {
		g.progress(a.DeploymentStatus.Timestamp)
	}
}

func (tx *Tx) regains(a *model.Allocation) bool {
	if tx.View().Level() < levelSetback {
		return false
	}
	for range maxRegained {
		prev := allocTable.in(tx.t).get(a.PreviousAllocation)
		if prev == nil || prev.DeploymentID != a.DeploymentID {
			return false
		}
		if prev.ClientStatus == model.AllocClientStatusFailed && prev.DeploymentStatus.IsHealthy() {
			return true
		}
		a = prev
	}
	return false
}

// health is an alloc's contribution to the counters of its deployment.
type health struct{ healthy, unhealthy, over bool }

func (h *health) of(a *model.Allocation) {
	*h = health{healthy: a.DeploymentStatus.IsHealthy(), unhealthy: a.DeploymentStatus.IsUnhealthy(), over: a.TerminalStatus()}
}

// counts reports whether the alloc counts towards the healthy allocs that the
// deployment needs. An alloc that was lost, failed later or is migrating does not; its
// replacement must become healthy instead.
func (h health) counts() bool { return h.healthy && !h.over }

func as01(b bool) int {
	if b {
		return 1
	}
	return 0
}

// groupProgress is a group of a deployment with methods that move its deadline.
type groupProgress struct{ *model.DeploymentState }

// progress restarts the group's progress deadline. Groups without a progress deadline
// have none.
func (g groupProgress) progress(at time.Time) {
	if g.ProgressDeadline > 0 {
		if by := at.Add(g.ProgressDeadline).UTC(); by.After(g.RequireProgressBy) {
			g.RequireProgressBy = by
		}
	}
}

func (tx *Tx) activeDeployment(id string) bool {
	if d := tx.derived.deployments[id]; d != nil {
		return d.Active()
	}
	return deploymentTable.in(tx.t).get(id).Active()
}

// deploymentGroup returns the alloc's deployment and group, which the caller may
// change.
func (tx *Tx) deploymentGroup(a *model.Allocation) (*model.Deployment, *groupProgress) {
	d := tx.derived.deployments[a.DeploymentID]
	if d == nil {
		d = deploymentTable.in(tx.t).get(a.DeploymentID).Copy()
		if d == nil {
			return nil, nil
		}
		if tx.derived.deployments == nil {
			tx.derived.deployments = map[string]*model.Deployment{}
		}
		tx.derived.deployments[a.DeploymentID] = d
	}
	g := d.TaskGroups[a.TaskGroup]
	if g == nil {
		return d, nil
	}
	return d, &groupProgress{g}
}

func (tx *Tx) settleDeployment(id string) {
	if d := tx.derived.deployments[id]; d != nil {
		before := len(tx.changes)
		tx.writeDeployment(d)
		tx.joinChange(before)
	}
}

// joinChange joins the last change with an earlier change of the same row in the same log
// entry: a deployment that a plan makes, and its first counters, are one change.
func (tx *Tx) joinChange(at int) {
	if at == len(tx.changes) { // changes are not recorded
		return
	}
	last := tx.changes[at]
	for i := at - 1; i >= 0 && tx.changes[i].Index == last.Index; i-- {
		if c := &tx.changes[i]; c.Table == last.Table && last.Old != nil && c.New == last.Old {
			c.New = last.New
			tx.changes = tx.changes[:at]
			return
		}
	}
}

// settle writes the derived rows that the entry's writes changed.
func (tx *Tx) settle() {
	for _, a := range tx.derived.healthy {
		tx.settleProgress(a)
	}
	for _, id := range slices.Sorted(maps.Keys(tx.derived.deployments)) {
		tx.settleDeployment(id)
	}
	for id, diff := range tx.derived.usage {
		tx.settleUsage(id, diff)
	}
	for _, id := range slices.Sorted(maps.Keys(tx.derived.services)) {
		tx.settleServices(id)
	}
	if !tx.restore {
		// Statuses first, since a child's new status is counted by its parent.
		for _, key := range slices.Sorted(maps.Keys(tx.derived.jobs)) {
			tx.settleStatus(tx.derived.jobs[key])
		}
		for _, key := range slices.Sorted(maps.Keys(tx.derived.jobs)) {
			tx.settleSummary(tx.derived.jobs[key])
		}
	}
	tx.derived = derived{}
}

func (tx *Tx) settleUsage(nodeID string, diff *usageRow) {
	if *diff == (usageRow{NodeID: nodeID}) {
		return
	}
	if old := usageTable.in(tx.t).find(nodeID); old != nil {
		diff.CPU += old.CPU
		diff.Mem += old.Mem
		diff.Disk += old.Disk
		diff.Allocs += old.Allocs
	}
	if diff.Allocs == 0 && nodeTable.in(tx.t).get(nodeID) == nil {
		usageTable.in(tx.t).delete(nodeID)
		return
	}
	usageTable.in(tx.t).put(diff)
}

// settleStatus derives the status of a job from its counts.
func (tx *Tx) settleStatus(row *summaryRow) {
	jobs := jobTable.in(tx.t).get(JobKey(row.Namespace, row.JobID))
	if job := jobs.current(); job != nil {
		if status := jobStatus(job, row); status != job.Status {
			tx.setJobStatus(jobs, status)
		}
	}
}

// settleSummary writes the counts of a job.
func (tx *Tx) settleSummary(row *summaryRow) {
	key := JobKey(row.Namespace, row.JobID)
	old := summaryTable.in(tx.t).get(key)
	if jobTable.in(tx.t).get(key).current() == nil && row.Allocs == 0 && row.Evals == 0 {
		jobTable.in(tx.t).delete(key) // the job is purged, and no alloc refers to its versions any more
	}
	if jobTable.in(tx.t).get(key) == nil && row.forgotten() {
		if summaryTable.in(tx.t).delete(key) != nil {
			record(tx, summaryTable, old.summary(), nil)
		}
		return
	}
	row.ModifyIndex = tx.index
	if old == nil || !old.equal(row) {
		summaryTable.in(tx.t).put(row)
		if old == nil {
			record(tx, summaryTable, nil, row.summary())
		} else {
			record(tx, summaryTable, old.summary(), row.summary())
		}
	}
}

// equal reports whether two rows have the same counts.
func (r *summaryRow) equal(o *summaryRow) bool {
	return r.Allocs == o.Allocs && r.LiveAllocs == o.LiveAllocs && r.Evals == o.Evals &&
		r.LiveEvals == o.LiveEvals && r.Blocked == o.Blocked && r.Children == o.Children && r.Bare == o.Bare &&
		maps.Equal(r.Groups, o.Groups) && maps.Equal(r.Queued, o.Queued)
}

func (tx *Tx) setJobStatus(row *jobRow, status string) {
	cur := row.current()
	c := *cur
	c.Status, c.ModifyIndex = status, tx.index
	next := *row
	next.Versions = slices.Clone(row.Versions)
	next.Versions[0] = &c
	jobTable.in(tx.t).put(&next)
	record(tx, jobTable, cur, &c)
	tx.accountChild(cur, &c)
}

// jobStatus derives a job's status: running if an alloc runs or may be started without
// an evaluation (periodic, parameterized, system), pending if an evaluation is
// outstanding, otherwise dead. A job without any allocs and evals is pending.
func jobStatus(job *model.Job, s *summaryRow) string {
	template := job.IsPeriodic() || job.IsParameterized() || job.Type == model.JobTypeSystem
	switch {
	case s.LiveAllocs > 0, template && !job.Stop:
		return model.JobStatusRunning
	case s.LiveEvals > 0:
		return model.JobStatusPending
	case job.Stop, s.Allocs > 0, s.Evals > 0, job.Status == model.JobStatusRunning, job.Status == model.JobStatusDead:
		return model.JobStatusDead
	}
	return model.JobStatusPending
}
