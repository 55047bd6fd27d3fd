// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package autopilot

import (
	"cmp"
	"fmt"
	"slices"
)

// server is a member of raft that gossip knows, as the rules of voting see it.
type server struct {
	Found
	address string // as raft has it
	voter   bool
	healthy bool
	// ready servers have been healthy for long enough to vote.
	ready bool
	// newer servers are of the newest version.
	newer bool
}

// electorate are the servers that may vote: all members that gossip knows, except replicas
// and twins.
type electorate struct {
	Scene
	*Config
	servers []server
	// mixed reports whether the servers differ in their versions, and that matters.
	mixed bool
}

// vote returns the next change of who votes. A server gets a vote before another one loses
// its own, and loses it only if at least Needed healthy voters remain and form a majority.
// Votes are given to servers that are alive, which changes seldom, and taken by health, so
// that a briefly slow server changes nothing.
func vote(s Scene, c *Config) *Step {
	e := newElectorate(s, c)
	if step := e.replicas(); step != nil {
		return step
	}
	if e.demotes() { // take votes away before more servers of the newest version get one than needed
		if step := e.demotion(); step != nil {
			return step
		}
	}
	if step := e.promotion(); step != nil {
		return step
	}
	return e.demotion()
}

func newElectorate(s Scene, c *Config) *electorate {
	e := &electorate{Scene: s, Config: c}
	for _, p := range s.Peers {
		f := s.found(p.ID)
		if f == nil || f.Left || f.Replica || s.twins(*f) {
			continue
		}
		e.servers = append(e.servers, server{Found: *f, address: p.Address, voter: p.Voter, healthy: s.Healthy(c, p.ID), ready: s.stable(c, p.ID)})
	}
	e.compareVersions()
	slices.SortFunc(e.servers, func(a, b server) int { // newer ones first: their votes last
		switch {
		case a.newer && !b.newer:
			return -1
		case b.newer && !a.newer:
			return 1
		}
		return cmp.Compare(a.ID, b.ID)
	})
	return e
}

// compareVersions sets which servers are of the newest version that an alive one has.
func (e *electorate) compareVersions() {
	if e.DisableUpgradeMigration {
		return
	}
	newest, known := "", false
	for _, v := range e.servers {
		if version := v.version(e.Config); e.alive(v.ID) && (!known || older(newest, version)) {
			newest, known = version, true
		}
	}
	for i := range e.servers {
		v := &e.servers[i]
		v.newer = known && !older(v.version(e.Config), newest)
		e.mixed = e.mixed || !v.newer
	}
}

func (e *electorate) count(match func(server) bool) (n int) {
	for _, v := range e.servers {
		if match(v) {
			n++
		}
	}
	return n
}

// replicas takes the vote of servers that are not to vote: their configuration has changed.
func (e *electorate) replicas() *Step {
	for _, p := range e.Peers {
		f := e.found(p.ID)
		if !p.Voter || f == nil || !f.Replica || e.twins(*f) {
			continue
		}
		if p.ID == e.Self {
			if step := e.handOver("this server is not to vote", nil); step != nil {
				return step
			}
			continue
		}
		if all, alive, _ := e.voters(e.Config, p.ID); alive == 0 || alive*2 <= all {
			continue
		}
		return &Step{Verb: Demote, ID: p.ID, Name: f.Name, Address: p.Address, Why: "it is not to vote (non_voting_server)"}
	}
	return nil
}

// promotion gives a vote to the next server that is ready and has a place. A zone gets a
// second vote only as the last resort.
func (e *electorate) promotion() *Step {
	var second *Step
	for _, v := range e.servers {
		if v.voter || !v.ready {
			continue
		}
		why, first := e.place(v)
		step := &Step{Verb: Promote, ID: v.ID, Name: v.Name, Address: v.address, Why: why}
		switch {
		case first:
			return step
		case why != "" && second == nil:
			second = step
		}
	}
	return second
}

// place returns why a server should vote, "" if it stands by, and whether it does not have
// to share its zone for that.
func (e *electorate) place(v server) (why string, first bool) {
	_, alive, _ := e.voters(e.Config, "")
	few := alive < e.Needed()
	if e.mixed && !few {
		switch {
		case !v.newer && e.newest() >= e.Needed() && e.newest() >= e.olderVotes():
			return "", false // it would lose its vote again
		case v.newer && e.newest() < e.olderVotes():
			return "", false // they take over when they are enough
		}
	}
	switch {
	case !e.EnableRedundancyZones || v.Zone == "":
		return fmt.Sprintf("it has kept up for %v", e.ServerStabilizationTime), true
	case !e.zoneVotes(v):
		return fmt.Sprintf("no server of its zone %s votes", v.Zone), true
	case few:
		return fmt.Sprintf("only %d servers vote, and no other zone has one that can", alive), false
	}
	return "", false
}

// zoneVotes reports whether a server of the same zone votes and is alive. While versions
// change, only servers of the same version stand by for each other.
func (e *electorate) zoneVotes(v server) bool {
	return e.count(func(o server) bool {
		return o.ID != v.ID && o.voter && o.Zone == v.Zone && e.alive(o.ID) && (!e.mixed || o.newer == v.newer)
	}) > 0
}

// newest returns how many servers of the newest version vote or are ready to.
func (e *electorate) newest() int {
	return e.places(func(v server) bool { return v.newer && (v.voter && e.alive(v.ID) || v.ready) })
}

// olderVotes returns how many alive servers of older versions vote, counted like newest:
// one of each zone.
func (e *electorate) olderVotes() int {
	return e.places(func(v server) bool { return !v.newer && v.voter && e.alive(v.ID) })
}

// places returns how many of the matching servers could vote: one of each zone.
func (e *electorate) places(match func(server) bool) int {
	zones := map[string]bool{}
	return e.count(func(v server) bool {
		if !match(v) {
			return false
		}
		if !e.EnableRedundancyZones || v.Zone == "" {
			return true
		}
		first := !zones[v.Zone]
		zones[v.Zone] = true
		return first
	})
}

// demotes reports whether older voters are to lose their votes now, because enough healthy
// servers of the newest version vote. In a cluster whose servers are upgraded in place
// nobody replaces the older voters, so they keep their votes. With an even number of voters
// one vote is useless.
func (e *electorate) demotes() bool {
	votes := e.count(func(v server) bool { return v.newer && v.voter && v.healthy })
	if !e.mixed || e.olderVotes() == 0 || votes < e.Needed() || votes < e.olderVotes() {
		return false
	}
	others := e.count(func(v server) bool { return !v.voter && e.alive(v.ID) })
	all, _, _ := e.voters(e.Config, "")
	return others > 0 || all%2 == 0
}

// demotion takes away the next vote that is no longer needed.
func (e *electorate) demotion() *Step {
	swap := e.demotes()
	self := ""
	for _, v := range e.servers {
		why := e.surplus(v, swap)
		switch {
		case why == "":
			continue
		case v.ID == e.Self:
			self = why // others first, because handing the lead over is a pause
			continue
		}
		all, alive, healthy := e.voters(e.Config, v.ID)
		if healthy < e.Needed() || alive*2 <= all {
			continue
		}
		return &Step{Verb: Demote, ID: v.ID, Name: v.Name, Address: v.address, Why: why}
	}
	if self == "" {
		return nil
	}
	if _, _, healthy := e.voters(e.Config, e.Self); healthy < e.Needed() {
		return nil
	}
	return e.handOver(self, func(id string) bool {
		i := slices.IndexFunc(e.servers, func(v server) bool { return v.ID == id })
		return i >= 0 && e.surplus(e.servers[i], swap) == ""
	})
}

// surplus returns why a voter should not vote, "" if it should.
func (e *electorate) surplus(v server, swap bool) string {
	switch {
	case !v.voter:
		return ""
	case swap && !v.newer && (!e.EnableRedundancyZones || v.Zone == "" || e.newerVotes(v.Zone)):
		return "servers of a newer version have taken over"
	case !e.EnableRedundancyZones || v.Zone == "":
		return ""
	}
	for _, o := range e.servers {
		same := o.voter && o.Zone == v.Zone && o.ID != v.ID && (!e.mixed || o.newer == v.newer)
		if same && e.rather(o, v) {
			return fmt.Sprintf("%s votes for its zone %s", o.Name, v.Zone)
		}
	}
	return ""
}

// newerVotes reports whether a healthy server of the newest version votes for a zone.
func (e *electorate) newerVotes(zone string) bool {
	return e.count(func(o server) bool { return o.newer && o.voter && o.healthy && o.Zone == zone }) > 0
}

// rather reports whether a should vote rather than b, which is in the same zone.
func (e *electorate) rather(a, b server) bool {
	if a.healthy != b.healthy {
		return a.healthy
	}
	if a.ID == e.Self || b.ID == e.Self {
		return a.ID == e.Self
	}
	return a.ID < b.ID
}

// handOver makes another server the leader. It is not tried again at once: writes stand
// still meanwhile.
func (e *electorate) handOver(why string, wanted func(id string) bool) *Step {
	if e.Now.Sub(e.HandedOver) < handOverPause {
		return nil
	}
	id := Successor(e.Scene, e.Config, wanted)
	if id == "" {
		return nil
	}
	return &Step{Verb: HandOver, ID: id, Name: e.found(id).Name, Address: e.member(id).Address, Why: why}
}
