// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package drain owns the controller of draining nodes. It requests the migration of
// allocs, as many at a time as their groups allow, and ends every drain: when no alloc
// that must leave is left, or at the deadline stored with it. It does not place or
// stop allocs; core/schedule does. core/server imports it.
//
// Service allocs leave first, migrate.max_parallel of a group at a time. Batch and
// sysbatch allocs may finish until the deadline. System allocs leave last, or stay if
// the drain ignores them; so do allocs that run a CSI driver, while others use volumes that
// they can have on another node. The drain also awaits the data that goes with successors to
// other nodes. At the deadline all remaining allocs are marked for
// migration and the drain ends.
package drain

import (
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

const (
	// nodeKey and jobKey are the prefixes of the two kinds of keys: a draining node,
	// and a job whose replacements may let draining nodes continue.
	nodeKey = "node/"
	jobKey  = "job/"
)

// Controller handles a draining node, or all draining nodes with allocs of a job.
type Controller struct{}

var _ control.Controller = Controller{}

var declaration = control.Declaration{
	Name:   "drains",
	Wakes:  []string{state.TableNodes, state.TableAllocs, state.TableJobs},
	Reads:  []string{state.TableNodes, state.TableAllocs, state.TableJobs, state.TableJobVersions},
	Writes: []fsm.Command{(*fsm.UpdateNodeDrain)(nil), (*fsm.UpdateDesiredTransitions)(nil)},
}

// Declare returns what the controller may touch.
func (Controller) Declare() control.Declaration { return declaration }

// Keys returns the node that a change concerns. For a replacement alloc it also
// returns the job, since the job's earlier allocs may be on draining nodes.
func (Controller) Keys(c state.Change) []string {
	switch obj := c.New.(type) {
	case *model.Node:
		if obj.DrainStrategy != nil {
			return []string{nodeKey + obj.ID}
		}
	case *model.Allocation:
		if obj.PreviousAllocation == "" {
			return []string{nodeKey + obj.NodeID}
		}
		return []string{nodeKey + obj.NodeID, jobKey + obj.Namespace + "/" + obj.JobID}
	}
	if c.Table == state.TableJobs {
		return keysOfJob(c)
	}
	return nil
}

// All returns the draining nodes.
func (Controller) All(v control.View) []string {
	var keys []string
	for n := range v.Nodes() {
		if n.DrainStrategy != nil {
			keys = append(keys, nodeKey+n.ID)
		}
	}
	return keys
}

// Decide returns the next actions for the draining nodes of a key.
func (Controller) Decide(in control.Input, key string) (control.Decision, error) {
	w := &work{in: in, marks: map[string]model.DesiredTransition{}, room: map[group]int{}, running: map[group]int{}, jobs: map[model.JobKey]*model.Job{}}
	for _, n := range w.nodes(key) {
		w.drain(n)
	}
	return w.decision(), nil
}

// nodes returns the draining nodes of a key.
func (w *work) nodes(key string) []*model.Node {
	var ids []string
	if id, ok := strings.CutPrefix(key, nodeKey); ok {
		ids = []string{id}
	} else {
		ns, job, _ := strings.Cut(strings.TrimPrefix(key, jobKey), "/")
		for _, a := range w.in.View.AllocsByJob(ns, job) {
			if !a.ClientTerminalStatus() || w.movesData(a) {
				ids = append(ids, a.NodeID)
			}
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
	}
	var nodes []*model.Node
	for _, id := range ids {
		if n := w.in.View.NodeByID(id); n != nil && n.DrainStrategy != nil {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// work is the input of one decision.
type work struct {
	in      control.Input
	marks   map[string]model.DesiredTransition // by alloc
	room    map[group]int                      // how many further allocs of a group may leave now
	running map[group]int                      // see runs
	jobs    map[model.JobKey]*model.Job        // with marked allocs; nil if the job was purged
	ended   []fsm.Command                      // the ends of drains
	wake    time.Time
}

// drain handles one node.
func (w *work) drain(n *model.Node) {
	service, batch, system := w.left(n)
	deadline, limited := deadlineOf(n.DrainStrategy)
	if limited && !w.in.Now.Before(deadline) {
		for _, a := range slices.Concat(service, batch, system) {
			w.mark(a)
		}
		w.end(n, true)
		return
	}
	switch {
	case len(service) > 0:
		w.migrate(service)
	case len(batch) > 0: // these may finish
	case len(system) > 0:
		for _, a := range system {
			w.mark(a)
		}
	case w.dataLeaves(n): // the node may be shut down when its drain is complete
	default:
		w.end(n, false)
		return
	}
	if limited {
		w.wakeAt(deadline)
	}
}

// deadlineOf returns the deadline of a drain, and whether it has one.
func deadlineOf(s *model.DrainStrategy) (time.Time, bool) {
	if s.Deadline < 0 {
		return s.StartedAt, true
	}
	return s.ForceDeadline, !s.ForceDeadline.IsZero()
}

// left returns the allocs that must leave the node and have not.
func (w *work) left(n *model.Node) (service, batch, system []*model.Allocation) {
	for _, a := range w.in.View.AllocsByNode(n.ID) {
		if a.ClientTerminalStatus() {
			continue
		}
		switch w.jobType(a) {
		case model.JobTypeSystem:
			if !n.DrainStrategy.IgnoreSystemJobs {
				system = append(system, a)
			}
		case model.JobTypeSysBatch:
			if !n.DrainStrategy.IgnoreSystemJobs {
				batch = append(batch, a)
			}
		case model.JobTypeBatch:
			batch = append(batch, a)
		default:
			service = append(service, a)
		}
	}
	if slices.ContainsFunc(slices.Concat(service, batch), w.usesVolumes) {
		others := slices.DeleteFunc(slices.Clone(service), w.unmounts)
		system = append(system, slices.DeleteFunc(service, func(a *model.Allocation) bool { return !w.unmounts(a) })...)
		service = others
	}
	return service, batch, system
}

// unmounts reports whether an alloc runs a driver of volumes whose other users can go to other
// nodes. It leaves after them: only a driver unmounts its volumes. A driver that no other node
// has must leave first, since they can go nowhere until it is there.
func (w *work) unmounts(a *model.Allocation) bool {
	for _, c := range w.driversOf(a) {
		if c.Type == model.CSIPluginController {
			continue
		}
		if p := w.in.View.CSIPluginByID(c.ID); p != nil {
			for id, part := range p.Nodes {
				if n := w.in.View.NodeByID(id); id != a.NodeID && part.Healthy && n != nil && n.Ready() {
					return true
				}
			}
		}
	}
	return false
}

// driversOf returns the CSI drivers that an alloc runs.
func (w *work) driversOf(a *model.Allocation) (out []*model.TaskCSIPluginConfig) {
	if tg := w.specOf(a); tg != nil {
		for _, t := range tg.Tasks {
			if t.CSIPluginConfig != nil {
				out = append(out, t.CSIPluginConfig)
			}
		}
	}
	return out
}

func (w *work) usesVolumes(a *model.Allocation) bool {
	tg := w.specOf(a)
	return tg != nil && len(tg.CSIRequests()) > 0 && len(w.driversOf(a)) == 0
}

func (w *work) specOf(a *model.Allocation) *model.TaskGroup {
	job := w.in.View.JobOf(a)
	if job == nil {
		return nil
	}
	return job.LookupTaskGroup(a.TaskGroup)
}

// jobType returns the type of the version that the alloc runs, even if the job was purged.
func (w *work) jobType(a *model.Allocation) string {
	if j := w.in.View.JobOf(a); j != nil {
		return j.Type
	}
	return model.JobTypeService
}

// migrate marks as many allocs as their groups allow.
func (w *work) migrate(allocs []*model.Allocation) {
	for _, a := range allocs {
		if a.ServerTerminalStatus() || a.DesiredTransition.ShouldMigrate() {
			continue
		}
		g := groupOf(a)
		room, known := w.room[g]
		if !known {
			room = w.roomOf(g)
		}
		if room > 0 {
			w.mark(a)
			room--
		}
		w.room[g] = room
	}
}

// mark requests the migration of an alloc.
func (w *work) mark(a *model.Allocation) {
	if a.TerminalStatus() || a.DesiredTransition.ShouldMigrate() {
		return
	}
	yes := true
	t := a.DesiredTransition
	t.Migrate = &yes
	w.marks[a.ID] = t
	w.jobs[a.JobKey()] = w.in.View.JobByID(a.Namespace, a.JobID)
}

// end ends the drain of a node. The node stays ineligible.
func (w *work) end(n *model.Node, deadlineReached bool) {
	last := model.DrainMetadata{StartedAt: n.DrainStrategy.StartedAt}
	if n.LastDrain != nil {
		last = *n.LastDrain
	}
	now := w.in.Now.UTC()
	last.UpdatedAt, last.Status = now.Truncate(time.Second), model.DrainStatusComplete
	event := &model.NodeEvent{Subsystem: "Drain", Message: "Node drain complete", Timestamp: now}
	if deadlineReached {
		event.Details = map[string]string{"deadline_reached": "true"}
	}
	w.ended = append(w.ended, &fsm.UpdateNodeDrain{NodeID: n.ID, LastDrain: &last, UpdatedAt: now.Unix(), Event: event})
}

func (w *work) wakeAt(t time.Time) {
	if w.wake.IsZero() || t.Before(w.wake) {
		w.wake = t
	}
}

func (w *work) decision() control.Decision {
	d := control.Decision{Wake: w.wake}
	if len(w.marks) > 0 {
		d.Commands = append(d.Commands, &fsm.UpdateDesiredTransitions{Transitions: w.marks, Evals: w.evals()})
	}
	d.Commands = append(d.Commands, w.ended...)
	return d
}

// evals returns an eval for every job with marked allocs, in the order of the jobs'
// keys.
func (w *work) evals() []*model.Evaluation {
	var jobs []*model.Job
	for key, job := range w.jobs {
		if job == nil { // purged
			job = model.Purged(key)
		}
		jobs = append(jobs, job)
	}
	slices.SortFunc(jobs, func(a, b *model.Job) int {
		return strings.Compare(a.Namespace+"/"+a.ID, b.Namespace+"/"+b.ID)
	})
	evals := make([]*model.Evaluation, len(jobs))
	for i, job := range jobs {
		evals[i] = model.NewEvaluation(w.in.NewID(), model.EvalTriggerNodeDrain, job, w.in.Now)
	}
	return evals
}
