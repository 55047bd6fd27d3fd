// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"time"

	"github.com/drover-project/drover/core/model"
)

// reach says what can be known of an alloc through its node.
type reach int

const (
	inReach reach = iota // its node speaks for it
	parted               // its node has just gone out of reach: it is unknown from now on
	away                 // unknown, and its node is still out of reach
	awaited              // unknown: its node is back, but has not said what became of it
	lost                 // given up
)

// reachOf decides about an alloc that has not ended, in jobs of every type. That a
// node is back is not yet word of its allocs: they stay unknown until it reports them.
func (r *run) reachOf(tg *model.TaskGroup, a *model.Allocation) reach {
	n, p := r.Node(a.NodeID), patienceOf(tg)
	unknown := a.ClientStatus == model.AllocClientStatusUnknown
	out := outOfReach(n)
	switch {
	case !out && (!unknown || a.DesiredTransition.ShouldMigrate()):
		return inReach
	case n == nil || out && a.DesiredTransition.ShouldMigrate(): // an operator gives it up
		return lost
	case !unknown:
		return p.onDisconnect(a, n)
	case p.wait > 0 && !r.Now.Before(a.UnknownSince().Add(p.wait)), out && !p.tolerant():
		return lost
	case out:
		return away
	}
	return awaited
}

// outOfReach reports whether nothing is heard of a node; nil is one that is gone.
func outOfReach(n *model.Node) bool {
	return n == nil || n.TerminalStatus() || n.Status == model.NodeStatusDisconnected
}

// patience is what a group says of allocs whose node is out of reach.
type patience struct {
	wait    time.Duration // how long they are unknown before they are lost
	endless bool          // they are unknown until their node is back
	replace bool          // others take their places
}

// patienceOf reads the disconnect block, or the older fields that it took the place of.
func patienceOf(tg *model.TaskGroup) patience {
	p := patience{replace: !tg.PreventRescheduleOnLost}
	if tg.MaxClientDisconnect != nil {
		p.wait = *tg.MaxClientDisconnect
	}
	if d := tg.Disconnect; d != nil {
		p.wait, p.replace = d.LostAfter, d.Replace == nil || *d.Replace
	}
	p.endless = p.wait == 0 && !p.replace
	return p
}

func (p patience) tolerant() bool { return p.wait > 0 || p.endless }

// onDisconnect decides about an alloc whose node n has just gone out of reach.
// What was not seen to run cannot come back.
func (p patience) onDisconnect(a *model.Allocation, n *model.Node) reach {
	ran := a.ClientStatus == model.AllocClientStatusRunning
	if ran && (p.endless || p.wait > 0 && n.Status == model.NodeStatusDisconnected) {
		return parted
	}
	return lost
}

// part makes an alloc unknown, and asks for a look at it when its time is over.
func (r *run) part(tg *model.TaskGroup, a *model.Allocation) {
	c := model.AllocChange{Kind: model.AllocMarkUnknown, AllocID: a.ID, ClientDescription: DescUnknown, At: r.Now.UnixNano()}
	if wait := patienceOf(tg).wait; wait > 0 {
		c.FollowupEvalID = r.followUp(r.Now.Add(wait), model.EvalTriggerMaxDisconnectTimeout, DescDisconnected)
	}
	r.res.Changed = append(r.res.Changed, c)
	r.counts(a.TaskGroup).Disconnect++
}

// sortSilent decides about an alloc that its node does not speak for now. What
// is not replaced keeps its place, and so does what may be back any moment.
func (r *run) sortSilent(s *slots, a *model.Allocation, at reach) {
	replace := patienceOf(s.tg).replace
	switch {
	case at == lost:
		r.giveUp(s, a, replace)
		return
	case at == parted:
		r.part(s.tg, a)
	default:
		r.counts(a.TaskGroup).Ignore++
	}
	switch {
	case replace && at != awaited:
		s.leaving = append(s.leaving, &leaver{alloc: a, vacant: true})
	case r.isCanary(a):
		s.canaries = append(s.canaries, a)
	default:
		s.kept = append(s.kept, a)
	}
}

// giveUp ends an alloc that is lost. What shall not be replaced goes on to hold its place.
func (r *run) giveUp(s *slots, a *model.Allocation, replace bool) {
	if replace || a.DesiredTransition.ShouldMigrate() {
		s.leaving = append(s.leaving, &leaver{alloc: a, desc: DescLost, clientStatus: model.AllocClientStatusLost})
		return
	}
	r.stop(a, DescLost, model.AllocClientStatusLost)
	r.counts(a.TaskGroup).Stop++
	s.kept = append(s.kept, a)
}

// holdsThoughLost reports whether a lost alloc of a group whose allocs are not
// replaced still holds its place: until its node is back and has ended what runs
// there, the job changes, or somebody forces a replacement.
func (r *run) holdsThoughLost(tg *model.TaskGroup, a *model.Allocation) bool {
	return !patienceOf(tg).replace &&
		a.ClientStatus == model.AllocClientStatusLost && a.DesiredDescription == DescLost && a.NextAllocation == "" &&
		!r.givenUp(a) && !a.DesiredTransition.ShouldForceReschedule() && !a.DesiredTransition.ShouldMigrate() &&
		outOfReach(r.Node(a.NodeID))
}

// bury calls an alloc lost that was to stop on a node that is down or gone:
// nobody will say how it ended.
func (r *run) bury(a *model.Allocation) {
	n := r.Node(a.NodeID)
	if a.ServerTerminalStatus() && !a.ClientTerminalStatus() && (n == nil || n.TerminalStatus()) {
		r.stop(a, a.DesiredDescription, model.AllocClientStatusLost)
	}
}
