// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"time"
)

// roll is the leader's knowledge of which server hears which node, and of when a node that
// no server hears has been silent for too long. It exists during one term. It is pure:
// times are arguments, and all of them come from the leader's clock.
//
// A node lives while a server hears it and that server reports. If a server is silent for
// a lease, each of its nodes gets a whole lease to be heard by another.
type roll struct {
	rules   rollRules
	nodes   map[string]*listed
	servers map[string]*hearer
	amnesty time.Time // no node counts as silent for too long before this
}

// rollRules are the times by which a roll judges. They may change with the number of
// nodes.
type rollRules struct {
	lease  time.Duration // how long a node or a server may be silent
	broken time.Duration // how long a node may be silent after its session has ended
	grace  time.Duration // added to both
	whole  time.Duration // how long a node may be silent if another server may have heard it
}

// listed is the leader's knowledge of a node.
type listed struct {
	server   string // hears the node; "" means none
	instance string
	session  uint64
	number   uint64    // number of the newest registration of the instance: see model.Node
	fresh    bool      // a server hears it that has yet to report it
	late     bool      // its server has missed a heartbeat
	heard    time.Time // newest time at which it was certainly heard
	end      time.Time // when it counts as silent for too long, if it is late or no server hears it
	floor    time.Time // it does not count as silent for too long before this
}

// hearer is a server that reports.
type hearer struct {
	boot   string
	number uint64
	heard  time.Time
	nodes  map[string]bool // those whose server it is
	late   map[string]bool
}

func newRoll(rules rollRules) *roll {
	return &roll{rules: rules, nodes: map[string]*listed{}, servers: map[string]*hearer{}}
}

// excuse grants all nodes on the roll and the given ones a whole lease, because another
// leader may have heard of them, or because this one was suspended.
func (r *roll) excuse(nodeIDs []string, now time.Time) {
	r.amnesty = now.Add(r.rules.whole)
	for _, id := range nodeIDs {
		if r.nodes[id] == nil {
			r.nodes[id] = &listed{end: r.amnesty}
		}
	}
	for _, s := range r.servers {
		s.heard = now
	}
}

// report takes a server's report.
func (r *roll) report(x Report, now time.Time) ReportAnswer {
	s := r.servers[x.Server]
	switch {
	case s == nil || s.boot != x.Boot:
		if !x.Full {
			return ReportAnswer{Again: true}
		}
		r.release(x.Server, now)
		s = &hearer{nodes: map[string]bool{}, late: map[string]bool{}}
		r.servers[x.Server] = s
	case x.Number <= s.number:
		return ReportAnswer{} // it came late, or twice
	case !x.Full && x.Number != s.number+1:
		return ReportAnswer{Again: true}
	}
	s.boot, s.number, s.heard = x.Boot, x.Number, now
	for _, n := range x.Left {
		r.leave(x.Server, n, now)
	}
	var answer ReportAnswer
	late := make(map[string]time.Duration, len(x.Late))
	for _, n := range x.Late {
		late[n.NodeID] = n.Age
	}
	for _, n := range x.Heard {
		if e, elsewhere := r.claim(x.Server, n, now.Add(-late[n.NodeID]), now); elsewhere {
			answer.Elsewhere = append(answer.Elsewhere, e)
		}
	}
	if x.Full {
		r.keepOnly(x, s, now)
	}
	r.setLate(x.Server, s, late, now)
	return answer
}

// keepOnly lets nodes leave that a full report does not mention.
func (r *roll) keepOnly(x Report, s *hearer, now time.Time) {
	mentioned := make(map[string]bool, len(x.Heard))
	for _, n := range x.Heard {
		mentioned[n.NodeID] = true
	}
	for id := range s.nodes {
		if !mentioned[id] {
			r.leave(x.Server, NodeAge{NodeID: id}, now)
		}
	}
}

// setLate notes which nodes of a server are late, and for how long.
func (r *roll) setLate(server string, s *hearer, late map[string]time.Duration, now time.Time) {
	for id := range s.late {
		if _, still := late[id]; !still {
			r.nodes[id].late = false
		}
	}
	clear(s.late)
	for id, age := range late {
		p := r.nodes[id]
		if p == nil || p.server != server {
			continue
		}
		s.late[id], p.late = true, true
		r.hear(p, now.Add(-age))
	}
}

// hear notes that a node was heard at a time.
func (r *roll) hear(p *listed, at time.Time) {
	if at.After(p.heard) {
		p.heard = at
	}
	p.end = p.heard.Add(r.rules.lease + r.rules.grace)
}

// touch records that a node was just heard by a server that has not reported it yet. Until
// that report the node has two leases of time: the server may grant leases until one lease
// after its own last report, and the node then needs another one to find a new server.
func (r *roll) touch(who HeardNode, now time.Time) {
	p := r.nodes[who.NodeID]
	if p == nil {
		p = &listed{}
		r.nodes[who.NodeID] = p
	}
	if p.instance != who.Instance || p.session < who.Session {
		r.move(who.NodeID, p, "") // it has left its server
	}
	p.begin(who)
	p.floor = time.Time{}
	r.hear(p, now)
	if p.server == "" {
		p.fresh, p.end = true, now.Add(r.rules.lease+r.rules.whole)
	}
}

// newest records a registration, and reports whether it is the newest of its process so
// far. A repeated registration counts as the newest.
func (r *roll) newest(who HeardNode, number uint64) bool {
	p := r.nodes[who.NodeID]
	if p == nil || p.instance != who.Instance {
		return true // it is noted with the next one
	}
	if who.Session < p.session || number != 0 && number < p.number {
		return false
	}
	p.number = max(p.number, number)
	return true
}

// begin notes a node's newest session.
func (p *listed) begin(who HeardNode) {
	if p.instance != who.Instance {
		p.instance, p.session, p.number = who.Instance, 0, 0
	}
	p.session = max(p.session, who.Session)
}

// move makes a server the one that hears a node.
func (r *roll) move(id string, p *listed, server string) {
	if old := r.servers[p.server]; old != nil {
		delete(old.nodes, id)
		delete(old.late, id)
	}
	p.server, p.late, p.fresh = server, false, false
	if s := r.servers[server]; s != nil {
		s.nodes[id] = true
	}
}

// claim records that a server has begun to hear a node, last at the given time, unless
// another server has a newer session with the node or hears another agent with the same
// identity.
func (r *roll) claim(server string, who HeardNode, at, now time.Time) (e NodeElsewhere, elsewhere bool) {
	p := r.nodes[who.NodeID]
	switch {
	case p == nil:
		p = &listed{}
		r.nodes[who.NodeID] = p
	case p.server == server && p.instance == who.Instance && p.session >= who.Session:
		return e, false // it is known
	case r.twice(server, who, now):
		return NodeElsewhere{HeardNode: who, Server: p.server, Twice: true}, true
	case p.instance == who.Instance && who.Session < p.session,
		p.instance == who.Instance && who.Session == p.session && p.server != "" && p.server != server && !p.late:
		return NodeElsewhere{HeardNode: who, Server: p.server}, true
	}
	r.move(who.NodeID, p, server)
	p.begin(who)
	p.floor = time.Time{}
	r.hear(p, at)
	return e, false
}

// twice reports whether another server hears another agent that acts as the node, and
// has heard it within a lease.
func (r *roll) twice(server string, who HeardNode, now time.Time) bool {
	p := r.nodes[who.NodeID]
	if p == nil || p.server == "" || p.server == server || who.Instance == "" || p.instance == "" || p.instance == who.Instance {
		return false
	}
	return !p.late || now.Before(p.heard.Add(r.rules.lease))
}

// leave notes that the session of a node with a server has ended.
func (r *roll) leave(server string, n NodeAge, now time.Time) {
	p := r.nodes[n.NodeID]
	if p == nil || p.server != server && !(p.fresh && p.session == n.Session) {
		return
	}
	at := now.Add(-n.Age)
	if !p.late {
		p.heard = at
	}
	p.end = earlier(p.heard.Add(r.rules.lease), at.Add(r.rules.broken)).Add(r.rules.grace)
	r.move(n.NodeID, p, "")
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// away notes that the node's agent has announced a restart.
func (r *roll) away(id string, until time.Time) {
	if p := r.nodes[id]; p != nil {
		p.floor = until
	}
}

// later schedules the next check of a node.
func (r *roll) later(id string, at time.Time) { r.away(id, at) }

// forget removes a node that is down or no longer exists.
func (r *roll) forget(id string) {
	if p := r.nodes[id]; p != nil {
		r.move(id, p, "")
		delete(r.nodes, id)
	}
}

// disown finds the servers that were silent for a lease, grants each of their nodes a whole
// lease to find another server, and returns the servers.
func (r *roll) disown(now time.Time) (silent []string) {
	for name, s := range r.servers {
		if now.Sub(s.heard) <= r.rules.lease {
			continue
		}
		r.release(name, now)
		silent = append(silent, name)
	}
	return silent
}

// release grants the nodes of a server that is gone a whole lease.
func (r *roll) release(server string, now time.Time) {
	s := r.servers[server]
	if s == nil {
		return
	}
	for id := range s.nodes {
		p := r.nodes[id]
		p.server, p.late, p.end = "", false, now.Add(r.rules.whole)
	}
	delete(r.servers, server)
}

// silent lists the nodes that have been silent for too long. disown must precede it.
func (r *roll) silent(now time.Time) (ids []string) {
	if now.Before(r.amnesty) {
		return nil
	}
	for id, p := range r.nodes {
		if p.silentAt(now) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (p *listed) silentAt(now time.Time) bool {
	heard := p.server != "" && !p.late
	return !heard && !now.Before(p.end) && !now.Before(p.floor)
}

// holder returns the id of the server that has the node's session, "" if none has it.
func (r *roll) holder(id string) string {
	if p := r.nodes[id]; p != nil {
		return p.server
	}
	return ""
}
