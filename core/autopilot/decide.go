// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package autopilot keeps the members of raft tidy: it decides, on the leader, which
// servers that gossip has found become members, when one may vote, and which are
// removed. Decide is pure; core/server gathers what it looks at and carries its steps
// out. Only core/server imports it.
package autopilot

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Config are the limits of autopilot.
type Config struct {
	// CleanupDead removes failed servers while enough others vote.
	CleanupDead bool
	// LastContact is how long ago a healthy server has heard from the leader, and
	// TrailingLogs how many entries it may lack.
	LastContact  time.Duration
	TrailingLogs uint64
	// MinQuorum is the number of voters below which no failed server is removed.
	MinQuorum int
	// Stabilization is how long a new server is healthy before it votes.
	Stabilization time.Duration
}

// Default is the configuration of a new cluster.
func Default() Config {
	return Config{CleanupDead: true, LastContact: 200 * time.Millisecond, TrailingLogs: 250, MinQuorum: 3, Stabilization: 10 * time.Second}
}

// Peer is a member of raft.
type Peer struct {
	ID, Address string
	Voter       bool
}

// Found is a server that gossip has found.
type Found struct {
	ID, Name, Address string
	// Alive servers answer; Left ones have said that they leave. Others have failed.
	Alive, Left bool
}

// Report is what a server says of itself.
type Report struct {
	LastIndex, LastTerm uint64
	// LastContact is how long ago the server heard from the leader.
	LastContact time.Duration
	At          time.Time // when the report arrived
}

// Scene is what Decide looks at.
type Scene struct {
	Now  time.Time
	Self string // the id of the leader
	// Peers are the members of raft, Found the servers of gossip, and Reports the
	// newest reports by id.
	Peers   []Peer
	Found   []Found
	Reports map[string]Report
	// LastIndex and Term are those of the leader's log.
	LastIndex, Term uint64
	// StableSince is since when servers are healthy without a break, by id.
	StableSince map[string]time.Time
}

// Verb is what a step does.
type Verb string

// The verbs of steps.
const (
	Add     Verb = "add"     // as a member that does not vote
	Move    Verb = "move"    // to another address
	Promote Verb = "promote" // to a voter
	Remove  Verb = "remove"
)

// Step is one change of raft's members.
type Step struct {
	Verb
	ID, Name, Address string
	Voter             bool // for Move: whether the server votes
	Why               string
}

// reportsLast is how long a report counts.
const reportsLast = 5 * time.Second

// Healthy reports whether a server keeps up with the leader. A newer scene may differ.
func (c Config) Healthy(s Scene, id string) bool {
	if id == s.Self {
		return true
	}
	f := s.found(id)
	r, known := s.Reports[id]
	return f != nil && f.Alive && known && s.Now.Sub(r.At) <= reportsLast &&
		r.LastTerm == s.Term && r.LastContact <= c.LastContact && r.LastIndex+c.TrailingLogs >= s.LastIndex
}

// found returns the server with an id, an alive one if there are several.
func (s Scene) found(id string) *Found {
	var out *Found
	for i := range s.Found {
		if f := &s.Found[i]; f.ID == id && (out == nil || f.Alive) {
			out = f
		}
	}
	return out
}

func (s Scene) peer(match func(Peer) bool) *Peer {
	if i := slices.IndexFunc(s.Peers, match); i >= 0 {
		return &s.Peers[i]
	}
	return nil
}

// Decide returns the next change of the members, nil if none is needed. There is at most
// one at a time, so that each is decided on what the one before has changed. A server
// that gossip does not know stays a member: an operator may have added it, or it has been
// away for longer than gossip remembers.
func Decide(s Scene, c Config) *Step {
	found := slices.Clone(s.Found)
	slices.SortFunc(found, func(a, b Found) int { return strings.Compare(a.ID+a.Name, b.ID+b.Name) })
	s.Found = found
	for _, rule := range []func(Scene, Config, Found) *Step{left, moved, joined, stable, dead} {
		for _, f := range found {
			if f.ID == "" || s.twins(f) {
				continue
			}
			if step := rule(s, c, f); step != nil {
				return step
			}
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
func left(s Scene, _ Config, f Found) *Step {
	p := s.peer(func(p Peer) bool { return p.ID == f.ID })
	if p == nil || !f.Left || f.ID == s.Self || s.found(f.ID).Alive {
		return nil
	}
	return &Step{Verb: Remove, ID: f.ID, Name: f.Name, Address: p.Address, Why: "it has left"}
}

// moved gives a member the address at which it is now.
func moved(s Scene, _ Config, f Found) *Step {
	p := s.peer(func(p Peer) bool { return p.ID == f.ID })
	if p == nil || !f.Alive || p.Address == f.Address {
		return nil
	}
	return &Step{Verb: Move, ID: f.ID, Name: f.Name, Address: f.Address, Voter: p.Voter, Why: "it was at " + p.Address}
}

// joined makes an alive server a member. A member that was at its address goes first: it
// cannot be there any more.
func joined(s Scene, _ Config, f Found) *Step {
	if !f.Alive || s.peer(func(p Peer) bool { return p.ID == f.ID }) != nil {
		return nil
	}
	if old := s.peer(func(p Peer) bool { return p.Address == f.Address }); old != nil {
		if o := s.found(old.ID); old.ID == s.Self || o != nil && o.Alive {
			return nil // two servers say that they are at one address
		}
		return &Step{Verb: Remove, ID: old.ID, Address: old.Address, Why: fmt.Sprintf("the server %s with another id is at its address", f.Name)}
	}
	return &Step{Verb: Add, ID: f.ID, Name: f.Name, Address: f.Address, Why: "it has joined"}
}

// stable lets a member vote that has kept up for a while.
func stable(s Scene, c Config, f Found) *Step {
	p := s.peer(func(p Peer) bool { return p.ID == f.ID })
	since, healthy := s.StableSince[f.ID]
	if p == nil || p.Voter || !healthy || !c.Healthy(s, f.ID) || s.Now.Sub(since) < c.Stabilization {
		return nil
	}
	return &Step{Verb: Promote, ID: f.ID, Name: f.Name, Address: p.Address, Why: fmt.Sprintf("it has kept up for %v", c.Stabilization)}
}

// dead removes a failed server. A voter stays while it is needed: the others that are
// alive must be a majority of the voters as they are, and enough without it.
func dead(s Scene, c Config, f Found) *Step {
	p := s.peer(func(p Peer) bool { return p.ID == f.ID })
	if p == nil || !c.CleanupDead || f.Alive || f.Left || f.ID == s.Self || s.found(f.ID).Alive {
		return nil
	}
	if p.Voter {
		voters, alive := s.voters()
		if alive*2 <= voters || alive < c.MinQuorum {
			return nil
		}
	}
	return &Step{Verb: Remove, ID: f.ID, Name: f.Name, Address: p.Address, Why: "it has failed, and enough servers are there without it"}
}

// voters returns the number of voters and of those that are alive.
func (s Scene) voters() (all, alive int) {
	for _, p := range s.Peers {
		if !p.Voter {
			continue
		}
		all++
		if f := s.found(p.ID); p.ID == s.Self || f != nil && f.Alive {
			alive++
		}
	}
	return all, alive
}
