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

// Nodes is what a step reads.
type Nodes interface {
	NodeByID(id string) *model.Node
	// NodesFrom yields the nodes whose id is not smaller than from, ordered by id.
	NodesFrom(from string) iter.Seq[*model.Node]
}

// Move is the next step of a roll-out: how it stands then, or why the release is
// given up for the one before.
type Move struct {
	Rollout *model.PluginRollout
	Revert  string
}

// Step returns the next step of a plugin's roll-out, nil if there is none, and
// when to look again although no node says anything new (zero: never). A roll-out walks over the nodes in the order of their ids, with at most
// MaxParallel of them in flight, and looks at all of them once more at its end:
// for those that came back or joined behind it.
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

// atEnd is a cursor behind all nodes.
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

// settle keeps in flight what is neither done nor gone.
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

// late says why a node missed its deadline.
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

// admit fills the free places, from the cursor on. At the end of the nodes, with
// none in flight, it looks at all of them again: then it has found one that came
// later, or the roll-out is complete.
func (w *walk) admit() {
	w.walkFrom(w.rollout.Cursor)
	if w.failure != "" || len(w.rollout.InFlight) > 0 {
		return
	}
	if w.spec.Rollout.Cursor != "" { // else that was all of them
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
		if standing == Failed { // it had been done
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

// fail stops the roll-out, or turns it back.
func (w *walk) fail() *Move {
	givenUp := w.spec.Rollout.GivenUp
	if w.spec.AutoRevert && givenUp == nil && w.spec.CanRevert() {
		return &Move{Revert: w.failure}
	}
	return &Move{Rollout: &model.PluginRollout{Status: model.PluginRolloutFailed, Description: "stopped: " + w.failure, GivenUp: givenUp}}
}

// wake is when the first of those in flight is late, or has run for long enough.
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
