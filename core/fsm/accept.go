// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"cmp"
	"maps"
	"slices"

	"github.com/drover-project/drover/core/model"
)

// PlanView is the part of the state that decides whether a plan is still valid.
// *state.View implements it.
type PlanView interface {
	AllocByID(id string) *model.Allocation
	NodeByID(id string) *model.Node
	JobByID(namespace, id string) *model.Job
	DeploymentByID(id string) *model.Deployment
	LatestDeployment(namespace, jobID string) *model.Deployment
	CSIVolumeByID(namespace, id string) *model.CSIVolume
	JobOf(a *model.Allocation) *model.Job
	Level() int
}

// Room returns why a node cannot take the new allocs while the others are stopped, or
// "".
type Room func(n *model.Node, stop, place []*model.Allocation) string

// Accept returns the part of a plan that is still valid on a view that may be newer
// than the one on which it was planned, and the reasons for rejecting the rest. This
// function alone decides that: the plan applier calls it before a plan is proposed,
// and Apply calls it again, since the log may contain other changes in between. The
// two callers differ in room, their check of resources. It is pure.
func Accept(v PlanView, p *model.Plan, room Room) *model.PlanResult {
	if why := outdated(v, p); why != "" {
		return &model.PlanResult{Rejections: []model.PlanRejection{{Reason: why}}}
	}
	c := &acceptance{v: v, p: p, room: room, changes: map[string]bool{}, places: make([]bool, len(p.Place))}
	c.checkChanges()
	c.checkPlaces()
	c.settle()
	if why := c.secondSuccessor(); why != "" {
		return &model.PlanResult{Rejections: append(c.rejections, model.PlanRejection{Reason: why})}
	}
	r := &model.PlanResult{Deployment: p.Deployment, Rejections: c.rejections}
	for _, u := range p.DeploymentUpdates {
		if u == nil {
			continue
		}
		if why := updateRefused(v.DeploymentByID(u.DeploymentID), u, p.SnapshotIndex); why != "" {
			r.Rejections = append(r.Rejections, model.PlanRejection{Reason: why})
			continue
		}
		r.DeploymentUpdates = append(r.DeploymentUpdates, u)
	}
	if p.AllAtOnce && len(r.Rejections) > 0 {
		return &model.PlanResult{Rejections: r.Rejections}
	}
	if len(r.Rejections) == 0 {
		r.Place, r.Change = p.Place, p.Change
		return r
	}
	for i, a := range p.Place {
		if !c.places[i] {
			r.Place = append(r.Place, a)
		}
	}
	for _, ch := range p.Change {
		if !c.changes[ch.AllocID] {
			r.Change = append(r.Change, ch)
		}
	}
	if d := p.Deployment; d != nil && joins(p.Place, p.Change, d.ID) && !joins(r.Place, r.Change, d.ID) {
		r.Deployment = nil // it has not begun: the evaluation is carried out again
	}
	return r
}

// joins reports whether an alloc joins a deployment.
func joins(place []*model.Allocation, change []model.AllocChange, id string) bool {
	return slices.ContainsFunc(place, func(a *model.Allocation) bool { return a.DeploymentID == id }) ||
		slices.ContainsFunc(change, func(ch model.AllocChange) bool { return ch.DeploymentID == id })
}

// outdated returns why the whole plan is no longer valid, or "".
func outdated(v PlanView, p *model.Plan) string {
	switch job := v.JobByID(p.Namespace, p.JobID); {
	case job != nil && job.JobModifyIndex > p.SnapshotIndex:
		return "job has changed since it was planned"
	case job == nil && len(p.Place) > 0:
		return "job does not exist any more"
	}
	if d := p.Deployment; d != nil {
		if latest := v.LatestDeployment(p.Namespace, p.JobID); latest != nil && latest.ID != d.ID && latest.CreateIndex > p.SnapshotIndex {
			// Two deployments of a job would be active, and nobody would end the older one.
			return "another deployment of the job has begun"
		}
	}
	return ""
}

// updateRefused returns why a deployment's new status is no longer valid, or "".
// Success is a conclusion from the state at planning time; all other statuses are
// orders.
func updateRefused(d *model.Deployment, u *model.DeploymentStatusUpdate, planned uint64) string {
	if d != nil && d.Active() && d.ModifyIndex > planned && u.Status == model.DeploymentStatusSuccessful {
		return "deployment has changed since it was planned"
	}
	return ""
}

// acceptance is the state of one call of Accept: the parts rejected so far.
type acceptance struct {
	v          PlanView
	p          *model.Plan
	room       Room
	changes    map[string]bool     // by alloc
	places     []bool              // by place in p.Place
	evicts     map[string][]string // the allocs that are preempted, by the new alloc for which
	placedOn   map[string]string   // nodes of the new allocs, if some alloc is preempted
	rejections []model.PlanRejection
}

func (c *acceptance) checkChanges() {
	for i := range c.p.Change {
		ch := &c.p.Change[i]
		a := c.v.AllocByID(ch.AllocID)
		var n *model.Node
		if a != nil {
			n = c.v.NodeByID(a.NodeID)
		}
		why := ch.Refused(a, n, c.p.SnapshotIndex)
		switch {
		case why != "":
		case ch.Kind == model.AllocUpdateInPlace:
			why = c.joinRefused(ch.DeploymentID)
		case ch.PreemptedBy != "":
			why = c.preemptionRefused(ch, a)
		}
		if why != "" {
			c.changes[ch.AllocID] = true
			c.rejections = append(c.rejections, model.PlanRejection{AllocID: ch.AllocID, Reason: why})
		}
	}
}

// preemptionRefused returns why an alloc must not be preempted any more, or "". If the new
// alloc is rejected later, the preemption is withdrawn with it.
func (c *acceptance) preemptionRefused(ch *model.AllocChange, a *model.Allocation) string {
	if c.v.Level() < preemptionLevel {
		return "a server of the cluster is too old to know preemption"
	}
	if !c.v.JobByID(c.p.Namespace, c.p.JobID).MayPreempt(c.v.JobByID(a.Namespace, a.JobID)) {
		return "its job's priority is not low enough any more"
	}
	if c.evicts == nil {
		c.evicts, c.placedOn = map[string][]string{}, make(map[string]string, len(c.p.Place))
		for _, n := range c.p.Place {
			c.placedOn[n.ID] = n.NodeID
		}
	}
	if c.placedOn[ch.PreemptedBy] != a.NodeID {
		return "nothing takes its place"
	}
	c.evicts[ch.PreemptedBy] = append(c.evicts[ch.PreemptedBy], ch.AllocID)
	return ""
}

// refusePlace rejects a new alloc. What it would have preempted keeps running.
func (c *acceptance) refusePlace(i int) {
	c.places[i] = true
	for _, id := range c.evicts[c.p.Place[i].ID] {
		c.changes[id] = true
	}
}

// checkPlaces rejects new allocs if something that they depend on has changed, other than
// their node.
func (c *acceptance) checkPlaces() {
	for i, a := range c.p.Place {
		why := c.joinRefused(a.DeploymentID)
		if c.v.AllocByID(a.ID) != nil {
			why = "alloc exists already"
		}
		if prev := a.PreviousAllocation; why == "" && prev != "" {
			old := c.v.AllocByID(prev)
			switch {
			case c.changes[prev]:
				why = "what becomes of its predecessor was refused"
			case old != nil && old.ClientTerminalStatus() && old.ModifyIndex > c.p.SnapshotIndex:
				why = "its predecessor has ended meanwhile"
			}
		}
		if why != "" {
			c.refusePlace(i)
			c.rejections = append(c.rejections, model.PlanRejection{NodeID: a.NodeID, AllocID: a.ID, Reason: why})
		}
	}
}

// joinRefused returns why no alloc may join a deployment any more, or "".
func (c *acceptance) joinRefused(id string) string {
	if id == "" {
		return ""
	}
	if d := c.v.DeploymentByID(id); d != nil && d.ModifyIndex > c.p.SnapshotIndex && d.Status != model.DeploymentStatusRunning {
		return "deployment is " + d.Status
	}
	return ""
}

// settle checks the resources of every node. If the successor of an alloc is rejected,
// the alloc keeps running and may occupy resources that other allocs should get, so
// nodes are checked again until nothing changes.
func (c *acceptance) settle() {
	places, stops := map[string][]int{}, map[string][]*model.Allocation{}
	successors := map[string][]int{} // by predecessor
	for i, a := range c.p.Place {
		places[a.NodeID] = append(places[a.NodeID], i)
		if a.PreviousAllocation != "" {
			successors[a.PreviousAllocation] = append(successors[a.PreviousAllocation], i)
		}
	}
	stoppedOn := map[string]*model.AllocChange{}
	for i := range c.p.Change {
		ch := &c.p.Change[i]
		if a := c.v.AllocByID(ch.AllocID); ch.Kind == model.AllocStop && a != nil {
			stops[a.NodeID] = append(stops[a.NodeID], a)
			stoppedOn[ch.AllocID] = ch
		}
	}
	resizes := c.resizes()
	ask := slices.Sorted(maps.Keys(places))
	for id := range resizes {
		if len(places[id]) == 0 {
			ask = append(ask, id)
		}
	}
	slices.Sort(ask)
	for len(ask) > 0 {
		for _, id := range ask {
			c.askNode(id, places[id], stops[id], resizes[id])
		}
		ask = c.takeBack(successors, stoppedOn)
	}
}

// resizes returns the allocs that get other resources, by node.
func (c *acceptance) resizes() map[string][]resize {
	out := map[string][]resize{}
	for i := range c.p.Change {
		ch := &c.p.Change[i]
		if a := c.v.AllocByID(ch.AllocID); ch.Resources != nil && a != nil {
			out[a.NodeID] = append(out[a.NodeID], resize{a, ch.Make(a, c.p.EvalID, 0)})
		}
	}
	return out
}

// resize is an alloc before and after a change of its resources.
type resize struct{ had, gets *model.Allocation }

// askNode rejects all new allocs and new resources of a node if it cannot take them
// together.
func (c *acceptance) askNode(id string, places []int, stops []*model.Allocation, resizes []resize) {
	var place, stop []*model.Allocation
	for _, i := range places {
		if !c.places[i] {
			place = append(place, c.p.Place[i])
		}
	}
	for _, x := range resizes {
		if !c.changes[x.had.ID] {
			stop, place = append(stop, x.had), append(place, x.gets)
		}
	}
	if len(place) == 0 {
		return
	}
	for _, a := range stops {
		if !c.changes[a.ID] {
			stop = append(stop, a)
		}
	}
	n := c.v.NodeByID(id)
	why := nodeRefuses(n)
	if why == "" {
		why = c.room(n, stop, place)
	}
	if why == "" {
		return
	}
	c.rejections = append(c.rejections, model.PlanRejection{NodeID: id, Reason: why})
	for _, i := range places {
		c.refusePlace(i)
	}
	for _, x := range resizes {
		c.changes[x.had.ID] = true
	}
}

// takeBack keeps allocs running whose successor is rejected, unless they are lost, and
// returns the nodes that have less room as a result.
func (c *acceptance) takeBack(successors map[string][]int, stopped map[string]*model.AllocChange) []string {
	var nodes []string
	for prev, next := range successors {
		ch := stopped[prev]
		if ch == nil || c.changes[prev] || ch.ClientStatus == model.AllocClientStatusLost {
			continue
		}
		if slices.ContainsFunc(next, func(i int) bool { return c.places[i] }) {
			c.changes[prev] = true
			nodes = append(nodes, c.v.AllocByID(prev).NodeID)
		}
	}
	slices.SortFunc(nodes, cmp.Compare[string])
	return slices.Compact(nodes)
}

// oneSuccessorLevel is the lowest capability level at which servers use secondSuccessor.
// Below it a server would refuse a plan that older servers apply, and its state would
// differ.
const oneSuccessorLevel = 2

// secondSuccessor returns why the whole plan must be rejected, or "". It must be if an
// alloc would get a second successor: the plan ends the first one, which was unreachable
// when the plan was made, but that end is rejected because the first one has reconnected.
func (c *acceptance) secondSuccessor() string {
	if len(c.changes) == 0 || c.v.Level() < oneSuccessorLevel {
		return ""
	}
	for i, a := range c.p.Place {
		if c.places[i] || a.PreviousAllocation == "" {
			continue
		}
		if old := c.v.AllocByID(a.PreviousAllocation); old != nil && old.NextAllocation != "" && c.changes[old.NextAllocation] {
			return "the other successor of " + old.ID + " has come back"
		}
	}
	return ""
}

// nodeRefuses returns why a node must not get new allocs, or "".
func nodeRefuses(n *model.Node) string {
	switch {
	case n == nil:
		return "node does not exist"
	case n.Status != model.NodeStatusReady:
		return "node is " + n.Status
	case n.DrainStrategy != nil:
		return "node is draining"
	case n.SchedulingEligibility != model.NodeSchedulingEligible:
		return "node is not eligible for scheduling"
	}
	return ""
}
