// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"time"

	"github.com/drover-project/drover/core/model"
)

// reach is what is known about an alloc through its node.
type reach int

const (
	inReach reach = iota // its node reports on it
	parted               // its node has just become unreachable: it becomes unknown now
	away                 // unknown, and its node is still unreachable
	awaited              // unknown; its node has reconnected but has not reported the alloc yet
	lost                 // given up as lost
)

// reachOf classifies an alloc that has not ended, for jobs of every type. The
// reconnect of a node is not yet a report on its allocs: they stay unknown until the
// node reports them.
func (r *run) reachOf(tg *model.TaskGroup, a *model.Allocation) reach {
	n, p := r.Node(a.NodeID), patienceOf(tg)
	unknown := a.ClientStatus == model.AllocClientStatusUnknown
	out := outOfReach(n)
	switch {
	case !out && (!unknown || a.DesiredTransition.ShouldMigrate()):
		return inReach
	case n == nil || a.DesiredTransition.ShouldMigrate(): // an operator migrates it away
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

// outOfReach reports whether a node is unreachable. A nil node no longer exists.
func outOfReach(n *model.Node) bool {
	return n == nil || n.TerminalStatus() || n.Status == model.NodeStatusDisconnected
}

// patience is a group's policy for allocs on unreachable nodes.
type patience struct {
	wait    time.Duration // how long they are unknown before they are lost
	endless bool          // they stay unknown until their node reconnects
	replace bool          // they are replaced meanwhile
}

// patienceOf returns the policy from the disconnect block, or from the older fields
// that it replaces.
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

// onDisconnect classifies an alloc whose node n has just become unreachable. An alloc
// that was never seen running is lost.
func (p patience) onDisconnect(a *model.Allocation, n *model.Node) reach {
	ran := a.ClientStatus == model.AllocClientStatusRunning
	if ran && (p.endless || p.wait > 0 && n.Status == model.NodeStatusDisconnected) {
		return parted
	}
	return lost
}

// part marks an alloc as unknown and requests an evaluation for the end of its time.
func (r *run) part(tg *model.TaskGroup, a *model.Allocation) {
	c := model.AllocChange{Kind: model.AllocMarkUnknown, AllocID: a.ID, ClientDescription: DescUnknown, At: r.Now.UnixNano()}
	if wait := patienceOf(tg).wait; wait > 0 {
		c.FollowupEvalID = r.followUp(r.Now.Add(wait), model.EvalTriggerMaxDisconnectTimeout, DescDisconnected)
	}
	r.res.Changed = append(r.res.Changed, c)
	r.counts(a.TaskGroup).Disconnect++
}

// sortSilent handles an alloc on which its node does not report now. An alloc that is
// not replaced, or may reconnect at any moment, keeps its place.
func (r *run) sortSilent(s *slots, a *model.Allocation, at reach) {
	if r.isCanary(a) {
		r.sortSilentCanary(s, a, at)
		return
	}
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
	if replace && at != awaited {
		s.leaving = append(s.leaving, &leaver{alloc: a, vacant: true})
	} else {
		s.kept = append(s.kept, a)
	}
}

// sortSilentCanary is sortSilent for a canary, which holds no place of the count. One of
// a roll-out that is over is not replaced.
func (r *run) sortSilentCanary(s *slots, a *model.Allocation, at reach) {
	if !r.canaryNow(a) {
		s.oldCanaries = append(s.oldCanaries, a)
		return
	}
	switch at {
	case lost:
		r.stop(a, DescLost, model.AllocClientStatusLost)
		r.counts(a.TaskGroup).Stop++
	case parted:
		r.part(s.tg, a)
	default:
		r.counts(a.TaskGroup).Ignore++
	}
	if at != awaited && (patienceOf(s.tg).replace || a.DesiredTransition.ShouldMigrate()) {
		s.movedCanaries = append(s.movedCanaries, a)
	} else {
		s.canaries = append(s.canaries, a)
	}
}

// giveUp marks an alloc as lost. If it must not be replaced, it keeps its place.
func (r *run) giveUp(s *slots, a *model.Allocation, replace bool) {
	if replace || a.DesiredTransition.ShouldMigrate() {
		s.leaving = append(s.leaving, &leaver{alloc: a, desc: DescLost, clientStatus: model.AllocClientStatusLost})
		return
	}
	r.stop(a, DescLost, model.AllocClientStatusLost)
	r.counts(a.TaskGroup).Stop++
	s.kept = append(s.kept, a)
}

// holdsThoughLost reports whether a lost alloc that nothing replaces still keeps its place:
// until its node has reconnected and ended it, the job changes, or a replacement is forced.
func (r *run) holdsThoughLost(tg *model.TaskGroup, a *model.Allocation) bool {
	return r.awaited(tg, a) && !r.givenUp(a)
}

// awaited reports whether an alloc is lost in a group that does not replace such allocs, and
// its node may still reconnect.
func (r *run) awaited(tg *model.TaskGroup, a *model.Allocation) bool {
	return !patienceOf(tg).replace &&
		a.ClientStatus == model.AllocClientStatusLost && a.DesiredDescription == DescLost && a.NextAllocation == "" &&
		!a.DesiredTransition.ShouldForceReschedule() && !a.DesiredTransition.ShouldMigrate() &&
		outOfReach(r.Node(a.NodeID))
}

// bury marks an alloc as lost that should stop on a node which is down or no longer
// exists, since nobody will report its end.
func (r *run) bury(a *model.Allocation) {
	n := r.Node(a.NodeID)
	if a.ServerTerminalStatus() && !a.ClientTerminalStatus() && (n == nil || n.TerminalStatus()) {
		r.stop(a, a.DesiredDescription, model.AllocClientStatusLost)
	}
}
