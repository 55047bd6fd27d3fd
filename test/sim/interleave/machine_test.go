// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package interleave_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/core/dispatch"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/nodeevals"
)

// machine is a node: what runs on it is what is true, whatever servers believe.
type machine struct {
	w      *world
	id     string
	linked bool // it reaches the servers
	agent  bool // its agent runs; tasks run without it
	skew   time.Duration
	heard  time.Time // when a server last answered, by its own clock
	has    map[string]*local
	late   []*model.AllocReport // a report that servers took and have not committed yet
}

// local is an alloc on its machine.
type local struct {
	is     *model.Allocation // as the machine reports it
	acked  *model.Allocation // what servers have acknowledged
	group  *model.TaskGroup
	modify uint64 // of the newest assignment
	stop   bool
}

func (m *machine) now() time.Time { return m.w.now.Add(m.skew) }

func (m *machine) reaches() bool { return m.linked && m.agent }

// register is what an agent says first when it has found a server.
func (m *machine) register() {
	if !m.reaches() {
		return
	}
	n := &model.Node{
		ID: m.id, Name: m.id, Datacenter: "dc1", NodePool: "default", Status: model.NodeStatusReady, StatusUpdatedAt: m.w.now.Unix(),
		Attributes: map[string]string{"driver.raw_exec": "1"},
		NodeResources: &model.NodeResources{
			Cpu: model.NodeCpuResources{CpuShares: 4000}, Memory: model.NodeMemoryResources{MemoryMB: 10000}, Disk: model.NodeDiskResources{DiskMB: 10000},
		},
	}
	n.ComputedClass = n.ComputeClass()
	view := m.w.store.View()
	cmd := &fsm.Batch{Commands: []fsm.Command{&fsm.RegisterNode{Node: n}}}
	if nodeevals.Needed(view.NodeByID(m.id), n) {
		cmd.Commands = append(cmd.Commands, &fsm.UpsertEvals{Evals: nodeevals.Of(view, n, m.w.now, m.w.NewID)})
	}
	m.w.sayf("node %s registers", m.id)
	m.w.apply(cmd)
	m.heard = m.now()
}

// beat makes the node ready if it was given up.
func (m *machine) beat() {
	view := m.w.store.View()
	n := view.NodeByID(m.id)
	if !m.reaches() || n == nil {
		return
	}
	m.heard = m.now()
	if n.Status != model.NodeStatusReady {
		m.w.status(view, n, model.NodeStatusReady)
	}
}

// pull gets the assignments.
func (m *machine) pull() {
	if !m.reaches() {
		return
	}
	view := m.w.store.View()
	m.heard = m.now()
	there := map[string]bool{}
	for _, a := range view.AllocsByNode(m.id) {
		there[a.ID] = true
		x := m.has[a.ID]
		switch {
		case x != nil && a.AllocModifyIndex <= x.modify:
			continue
		case x != nil:
		case a.ClientTerminalStatus():
			continue
		default:
			x = m.begin(a)
		}
		x.modify = a.AllocModifyIndex
		x.stop = x.stop || a.ServerTerminalStatus()
		if a.ClientStatus == model.AllocClientStatusUnknown {
			x.acked = nil // said again
		}
		if job := view.JobOf(a); job != nil && job.LookupTaskGroup(a.TaskGroup) != nil {
			x.group = job.LookupTaskGroup(a.TaskGroup)
		}
		if a.DeploymentID != x.is.DeploymentID {
			x.is = x.is.Copy()
			x.is.DeploymentID, x.is.DeploymentStatus = a.DeploymentID, nil
		}
	}
	for id, x := range m.has {
		if !there[id] {
			x.stop = true
		}
	}
}

// begin takes an alloc that the machine did not have.
func (m *machine) begin(a *model.Allocation) *local {
	x := &local{is: &model.Allocation{ID: a.ID, Name: a.Name, JobID: a.JobID, TaskGroup: a.TaskGroup, DeploymentID: a.DeploymentID, ClientStatus: model.AllocClientStatusPending}}
	switch {
	case a.ServerTerminalStatus():
		x.is.ClientStatus = model.AllocClientStatusComplete
	case a.ClientStatus == model.AllocClientStatusUnknown:
		x.is.ClientStatus = model.AllocClientStatusFailed // it ran here: it must not run twice
	}
	m.has[a.ID] = x
	return x
}

// set changes what is true of an alloc.
func (m *machine) set(x *local, status string, healthy *bool) {
	at := m.now().UTC()
	c := x.is.Copy()
	old := c.TaskStates["t"]
	s := &model.TaskState{}
	if old != nil {
		*s = *old
	}
	if status != c.ClientStatus {
		s.LastEvent++
		s.Events = append(slices.Clone(s.Events), &model.TaskEvent{Type: status, Time: at.UnixNano()})
		if over := len(s.Events) - model.MaxTaskEvents; over > 0 {
			s.Events = s.Events[over:]
		}
		switch status {
		case model.AllocClientStatusRunning:
			s.State, s.StartedAt = model.TaskStateRunning, &at
		case model.AllocClientStatusPending:
			s.State = model.TaskStatePending
			s.Restarts++
		default:
			s.State, s.Failed, s.FinishedAt = model.TaskStateDead, status == model.AllocClientStatusFailed, &at
		}
	}
	c.ClientStatus, c.TaskStates = status, map[string]*model.TaskState{"t": s}
	if healthy != nil {
		c.DeploymentStatus = &model.AllocDeploymentStatus{Healthy: healthy}
	}
	m.w.sayf("on %s: %s (%s) %s -> %s", m.id, x.is.Name, short(x.is.ID), x.is.ClientStatus, status)
	x.is = c
}

// locals returns the allocs of the machine that have not ended, ordered by id.
func (m *machine) locals() (out []*local) {
	for _, id := range slices.Sorted(maps.Keys(m.has)) {
		if !m.has[id].is.ClientTerminalStatus() {
			out = append(out, m.has[id])
		}
	}
	return out
}

// step lets one alloc go on; fate says how if it may go several ways.
func (m *machine) step(x *local, fate int) {
	yes, no := true, false
	switch {
	case x.stop:
		m.set(x, model.AllocClientStatusComplete, nil)
	case x.is.ClientStatus == model.AllocClientStatusPending && fate == 5:
		m.set(x, model.AllocClientStatusFailed, &no)
	case x.is.ClientStatus == model.AllocClientStatusPending:
		m.set(x, model.AllocClientStatusRunning, nil)
	case fate == 1:
		m.set(x, model.AllocClientStatusFailed, nil)
	case fate == 2 && m.w.typeOf(x.is.JobID) == model.JobTypeBatch:
		m.set(x, model.AllocClientStatusComplete, nil)
	case fate == 2: // tasks of services are started again
		m.set(x, model.AllocClientStatusPending, nil)
	case fate == 3 && x.is.DeploymentStatus == nil:
		m.set(x, x.is.ClientStatus, &no)
	case x.is.DeploymentStatus == nil:
		m.set(x, x.is.ClientStatus, &yes)
	}
}

// reboot ends every task; agents start them again where the policy allows it.
func (m *machine) reboot(fail bool) {
	for _, x := range m.locals() {
		switch {
		case x.is.ClientStatus != model.AllocClientStatusRunning:
		case fail:
			m.set(x, model.AllocClientStatusFailed, nil)
		default:
			m.set(x, model.AllocClientStatusPending, nil)
		}
	}
}

// cutOff stops what must not run on without servers.
func (m *machine) cutOff() {
	if m.linked || !m.agent {
		return
	}
	for _, x := range m.locals() {
		if after := stopAfter(x.group); after > 0 && m.now().Sub(m.heard) >= after {
			m.set(x, model.AllocClientStatusFailed, nil)
		}
	}
}

func stopAfter(tg *model.TaskGroup) time.Duration {
	switch {
	case tg == nil:
		return 0
	case tg.Disconnect != nil && tg.Disconnect.StopOnClientAfter != nil:
		return *tg.Disconnect.StopOnClientAfter
	case tg.StopAfterClientDisconnect != nil:
		return *tg.StopAfterClientDisconnect
	}
	return 0
}

// What becomes of a report.
const (
	arrives     = iota
	answerLost  // it is committed, and the node sends it again
	isLate      // servers have taken it, and commit it later
	isLost      // it never arrives
	manyOutcome // how many there are
)

// report tells servers what they have not acknowledged.
func (m *machine) report(outcome int) {
	n := m.w.store.View().NodeByID(m.id)
	if !m.reaches() || outcome == isLost || n == nil || n.Status != model.NodeStatusReady {
		return
	}
	m.commitLate() // a node sends one report at a time
	var reports []*model.AllocReport
	for _, id := range slices.Sorted(maps.Keys(m.has)) {
		if r := m.has[id].is.ReportSince(m.has[id].acked); r != nil {
			reports = append(reports, r)
		}
	}
	if len(reports) == 0 {
		return
	}
	switch outcome {
	case isLate:
		m.late = reports
		return
	case arrives:
		for _, x := range m.has {
			x.acked = x.is
		}
	}
	m.commit(reports)
}

func (m *machine) commitLate() {
	if m.late != nil {
		reports := m.late
		m.late = nil
		m.commit(reports)
	}
}

// commit is what the leader does with a report.
func (m *machine) commit(reports []*model.AllocReport) {
	view := m.w.store.View()
	cmd := &fsm.UpdateAllocsFromClient{At: m.w.now.UnixNano()}
	said := ""
	for _, r := range reports {
		known := view.AllocByID(r.ID)
		if known == nil || known.NodeID != m.id {
			continue
		}
		news, missing := known.News(r)
		if missing {
			m.has[r.ID].acked = nil
		}
		if news != nil {
			cmd.Reports = append(cmd.Reports, news)
			said += fmt.Sprintf(" %s(%s) %s->%s", known.Name, short(r.ID), known.ClientStatus, r.ClientStatus)
		}
	}
	if len(cmd.Reports) == 0 {
		return
	}
	cmd.Evals = dispatch.EvalsOf(view, cmd.Reports, m.w.now, m.w.NewID)
	m.w.sayf("node %s reports%s, evaluations: %d", m.id, said, len(cmd.Evals))
	m.w.apply(cmd)
}

func evalsOfNode(w *world, n *model.Node) []*model.Evaluation {
	return nodeevals.Of(w.store.View(), n, w.now, w.NewID)
}
