// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package autopilot keeps the members of raft tidy: it decides, on the leader, which
// servers that gossip has found become members, which of them vote, and which are
// removed. Everything in it is pure; core/autopilot/pilot gathers what it looks at and
// carries its steps out.
package autopilot

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verb is what a step does.
type Verb string

// The verbs of steps.
const (
	Add      Verb = "add"     // as a member that does not vote
	Move     Verb = "move"    // changes the address of a member
	Promote  Verb = "promote" // makes a member a voter
	Demote   Verb = "demote"  // takes away a member's vote
	Remove   Verb = "remove"
	HandOver Verb = "hand over" // the lead, to this server
)

// Step is one change of raft's members.
type Step struct {
	Verb
	ID, Name, Address string
	Voter             bool // for Move: whether the server votes
	Why               string
}

// handOverPause is the time between two attempts of a leader to hand over.
const handOverPause = time.Minute

// Decide returns the next change of the members, nil if none is needed. It returns at most
// one, so that each decision sees the result of the previous change. A server that gossip
// does not know stays a member: an operator may have added it, or it has been away for
// longer than gossip remembers.
func Decide(s Scene, c *Config) *Step {
	found := slices.Clone(s.Found)
	slices.SortFunc(found, func(a, b Found) int { return strings.Compare(a.ID+a.Name, b.ID+b.Name) })
	s.Found = found
	for _, rule := range []func(Scene, *Config, Found) *Step{left, moved, joined, dead} {
		if step := each(s, c, rule); step != nil {
			return step
		}
	}
	return vote(s, c)
}

// each applies a rule to one server after another and returns the first step.
func each(s Scene, c *Config, rule func(Scene, *Config, Found) *Step) *Step {
	for _, f := range s.Found {
		if f.ID == "" || s.twins(f) {
			continue
		}
		if step := rule(s, c, f); step != nil {
			return step
		}
	}
	return nil
}

// twins reports whether two alive servers have one id: their data directory was copied.
// Nothing is decided about them.
func (s Scene) twins(f Found) bool {
	n := 0
	for _, o := range s.Found {
		if o.ID == f.ID && o.Alive {
			n++
		}
	}
	return n > 1
}

// left removes a server that has said that it leaves.
func left(s Scene, _ *Config, f Found) *Step {
	p := s.member(f.ID)
	if p == nil || !f.Left || f.ID == s.Self || s.found(f.ID).Alive {
		return nil
	}
	return &Step{Verb: Remove, ID: f.ID, Name: f.Name, Address: p.Address, Why: "it has left"}
}

// moved updates the address of a member whose server has moved.
func moved(s Scene, _ *Config, f Found) *Step {
	p := s.member(f.ID)
	if p == nil || !f.Alive || p.Address == f.Address {
		return nil
	}
	return &Step{Verb: Move, ID: f.ID, Name: f.Name, Address: f.Address, Voter: p.Voter, Why: "it was at " + p.Address}
}

// joined makes an alive server a member, if the leader can connect to it: whoever gossips may
// be a server of others. A member that was at its address goes first: it cannot be there any
// more.
func joined(s Scene, _ *Config, f Found) *Step {
	if !f.Alive || f.OutOfReach || s.member(f.ID) != nil {
		return nil
	}
	if old := s.peer(func(p Peer) bool { return p.Address == f.Address }); old != nil {
		if s.alive(old.ID) {
			return nil // two servers say that they are at one address
		}
		return &Step{Verb: Remove, ID: old.ID, Address: old.Address, Why: fmt.Sprintf("the server %s with another id is at its address", f.Name)}
	}
	return &Step{Verb: Add, ID: f.ID, Name: f.Name, Address: f.Address, Why: "it has joined"}
}

// dead removes a failed server. It removes a voter only if the alive voters are a majority
// of all voters, the failed ones included, and are as many as the configuration needs.
func dead(s Scene, c *Config, f Found) *Step {
	p := s.member(f.ID)
	if p == nil || !c.CleanupDeadServers || f.Alive || f.Left || f.ID == s.Self || s.found(f.ID).Alive {
		return nil
	}
	if all, alive, _ := s.voters(c, ""); p.Voter && (alive*2 <= all || alive < c.Needed()) {
		return nil
	}
	return &Step{Verb: Remove, ID: f.ID, Name: f.Name, Address: p.Address, Why: "it has failed, and enough servers are there without it"}
}
