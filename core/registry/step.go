// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
)

// Nodes is the part of the state that a step reads.
type Nodes interface {
	NodeByID(id string) *model.Node
	// NodesFrom yields the nodes whose id is not smaller than from, ordered by id.
	NodesFrom(from string) iter.Seq[*model.Node]
}

// Move is the next step of a roll-out: its new status, or the reason to revert to the
// previous release.
type Move struct {
	Rollout *model.PluginRollout
	Revert  string
}

// Step returns the next step of a plugin's roll-out, nil if there is none, and when to
// check again without a change (zero: never). A roll-out visits the nodes in the order
// of their ids, with at most MaxParallel of them in flight. At its end it visits all
// nodes again, for those that returned or joined meanwhile.
func Step(p *model.PluginSpec, nodes Nodes, now time.Time) (next *Move, wake time.Time) {
	if p.Rollout.Status != model.PluginRolloutRunning && p.Rollout.Status != model.PluginRolloutPaused {
		return nil, time.Time{}
	}
	w := &walk{spec: p, target: NewTarget(p), nodes: nodes, now: now, rollout: *p.Rollout}
	w.rollout.InFlight = nil
	w.settle()
	if w.failure == "" && p.Rollout.Active() {
		w.admit()
	}
	if w.failure != "" {
		return w.fail(), time.Time{}
	}
	if w.changed {
		next = &Move{Rollout: &w.rollout}
	}
	return next, w.wake()
}

// atEnd is a cursor after all nodes.
const atEnd = "~"

type walk struct {
	spec    *model.PluginSpec
	target  *Target
	nodes   Nodes
	now     time.Time
	rollout model.PluginRollout
	changed bool
	failure string
}

// settle removes nodes from flight that are done or no longer exist.
func (w *walk) settle() {
	for _, a := range w.spec.Rollout.InFlight {
		n := w.nodes.NodeByID(a.NodeID)
		if n == nil {
			w.changed = true
			continue
		}
		switch standing, why := w.target.Of(n); standing {
		case InFlight:
			w.watch(n, a, why)
		case Failed:
			w.failed(n, why)
		default:
			w.changed = true
		}
	}
}

// watch keeps a node in flight until it has run the release for long enough.
func (w *walk) watch(n *model.Node, a *model.PluginAdmission, why string) {
	from := a.HealthyFrom
	switch healthy := runs(w.spec, n); {
	case !healthy:
		from = 0
	case from == 0:
		from = w.now.UnixNano()
	}
	switch {
	case from != 0 && w.now.UnixNano() >= from+int64(w.spec.MinHealthyTime):
		w.changed = true // it is done
		return
	case w.now.UnixNano() >= a.Deadline:
		w.failed(n, w.late(n, why))
	}
	if from != a.HealthyFrom {
		a, w.changed = &model.PluginAdmission{NodeID: a.NodeID, Deadline: a.Deadline, HealthyFrom: from}, true
	}
	w.rollout.InFlight = append(w.rollout.InFlight, a)
}

// late returns why a node missed its deadline.
func (w *walk) late(n *model.Node, why string) string {
	text := "it did not run " + w.spec.Release.Label() + " healthily within " + w.spec.HealthyDeadline.String()
	if plugin := n.Plugins[w.spec.Name]; why == "" && plugin != nil {
		if why = "the plugin is " + plugin.State; plugin.Error != "" {
			why += ": " + plugin.Error
		}
	}
	if why != "" {
		text += ": " + why
	}
	return text
}

func (w *walk) failed(n *model.Node, why string) {
	if w.failure != "" {
		return
	}
	name := n.Name
	if name == "" {
		name = n.ID
	}
	w.failure = fmt.Sprintf("node %s (%s): %s", name, n.ID[:min(len(n.ID), 8)], why)
}

// admit admits further nodes from the cursor on. At the end, with none in flight, it
// visits all nodes again: it either finds one that joined later, or the roll-out is
// complete.
func (w *walk) admit() {
	w.walkFrom(w.rollout.Cursor)
	if w.failure != "" || len(w.rollout.InFlight) > 0 {
		return
	}
	if w.spec.Rollout.Cursor != "" { // otherwise that was the pass over all nodes
		w.walkFrom("")
	}
	if w.failure == "" && len(w.rollout.InFlight) == 0 {
		w.complete()
	}
}

func (w *walk) walkFrom(from string) {
	deadline := w.now.Add(w.spec.HealthyDeadline).UnixNano()
	room := w.spec.MaxParallel - len(w.rollout.InFlight)
	if room <= 0 || from == atEnd {
		return
	}
	cursor := atEnd
	for n := range w.nodes.NodesFrom(from) {
		standing, why := w.target.Of(n)
		if standing == Failed { // it had been done before
			w.failed(n, why)
			return
		}
		if standing != Waiting {
			continue
		}
		if room == 0 {
			cursor = n.ID
			break
		}
		w.rollout.InFlight = append(w.rollout.InFlight, &model.PluginAdmission{NodeID: n.ID, Deadline: deadline})
		w.changed = true
		room--
	}
	if w.rollout.Cursor != cursor {
		w.rollout.Cursor, w.changed = cursor, true
	}
	slices.SortFunc(w.rollout.InFlight, func(a, b *model.PluginAdmission) int { return strings.Compare(a.NodeID, b.NodeID) })
}

func (w *walk) complete() {
	w.changed = true
	w.rollout.Status, w.rollout.Cursor, w.rollout.Description = model.PluginRolloutComplete, "", ""
	if g := w.rollout.GivenUp; g != nil {
		w.rollout.Description = "went back to " + w.spec.Release.Label() + ": " + g.Reason
	}
}

// fail ends the roll-out as failed, or reverts it.
func (w *walk) fail() *Move {
	givenUp := w.spec.Rollout.GivenUp
	if w.spec.AutoRevert && givenUp == nil && w.spec.CanRevert() {
		return &Move{Revert: w.failure}
	}
	return &Move{Rollout: &model.PluginRollout{Status: model.PluginRolloutFailed, Description: "stopped: " + w.failure, GivenUp: givenUp}}
}

// wake returns when the first node in flight misses its deadline or has run for long
// enough.
func (w *walk) wake() time.Time {
	var first int64
	for _, a := range w.rollout.InFlight {
		at := a.Deadline
		if a.HealthyFrom != 0 {
			at = min(at, a.HealthyFrom+int64(w.spec.MinHealthyTime))
		}
		if first == 0 || at < first {
			first = at
		}
	}
	if first == 0 {
		return time.Time{}
	}
	return time.Unix(0, first)
}
