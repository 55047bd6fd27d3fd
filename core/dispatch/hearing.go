// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"slices"
	"strings"
	"time"
)

// hearing is one server's knowledge of the nodes whose heartbeats it receives, and of the
// part that the leader does not know yet. It is pure: times are arguments.
type hearing struct {
	server, boot string
	nodes        map[string]*heardNode
	news         map[string]bool      // nodes that the leader must learn of
	left         map[string]heardNode // sessions that ended (at) without the leader's knowledge
	full         bool                 // the next report is a full one
	number       uint64               // number of the newest report
	late         time.Duration        // nodes that were silent for longer are late
	// acked is when the newest report began that the leader has acknowledged.
	acked time.Time
}

// heardNode is a node whose heartbeats this server receives.
type heardNode struct {
	at       time.Time // when it was last heard
	instance string
	session  uint64
}

func newHearing(server, boot string, late time.Duration, now time.Time) *hearing {
	return &hearing{server: server, boot: boot, late: late, nodes: map[string]*heardNode{}, news: map[string]bool{}, left: map[string]heardNode{}, full: true, acked: now}
}

// heard records a heartbeat of a node. It reports whether the leader must learn of it:
// because the node is new to this server, has a new session, or was late, so that the
// leader may have given it up.
func (h *hearing) heard(who HeardNode, now time.Time) (news bool) {
	n := h.nodes[who.NodeID]
	if n == nil || n.instance != who.Instance {
		n = &heardNode{instance: who.Instance}
		h.nodes[who.NodeID] = n
		news = true
	}
	news = news || n.session < who.Session || now.Sub(n.at) > h.late
	n.at, n.session = now, max(n.session, who.Session)
	if news {
		h.tell(who.NodeID)
	}
	return news
}

// tell makes the next report mention a node.
func (h *hearing) tell(nodeID string) {
	if h.nodes[nodeID] != nil {
		h.news[nodeID] = true
		delete(h.left, nodeID)
	}
}

// leave notes that the node's session has ended.
func (h *hearing) leave(nodeID string, now time.Time) {
	n := h.nodes[nodeID]
	if n == nil {
		return
	}
	h.forget(nodeID)
	h.left[nodeID] = heardNode{at: now, session: n.session}
}

// forget removes a node without telling the leader.
func (h *hearing) forget(nodeID string) {
	delete(h.nodes, nodeID)
	delete(h.news, nodeID)
	delete(h.left, nodeID)
}

// excuse treats all nodes as heard just now. After this server was suspended, their heartbeats
// may have arrived without having been read yet.
func (h *hearing) excuse(now time.Time) {
	for _, n := range h.nodes {
		n.at = now
	}
}

// overdue returns the nodes that were not heard for a time.
func (h *hearing) overdue(now time.Time, than time.Duration) (out []string) {
	for id, n := range h.nodes {
		if now.Sub(n.at) > than {
			out = append(out, id)
		}
	}
	return out
}

// report returns the next report.
func (h *hearing) report(now time.Time) Report {
	h.number++
	r := Report{Server: h.server, Boot: h.boot, Number: h.number, Full: h.full}
	for id, n := range h.nodes {
		if h.full || h.news[id] {
			r.Heard = append(r.Heard, HeardNode{NodeID: id, Instance: n.instance, Session: n.session})
		}
		if age := now.Sub(n.at); age > h.late {
			r.Late = append(r.Late, NodeAge{NodeID: id, Age: age})
		}
	}
	for id, n := range h.left {
		r.Left = append(r.Left, NodeAge{NodeID: id, Session: n.session, Age: max(0, now.Sub(n.at))})
	}
	slices.SortFunc(r.Heard, func(a, b HeardNode) int { return strings.Compare(a.NodeID, b.NodeID) })
	clear(h.news)
	clear(h.left)
	h.full = false
	return r
}

// answered records the leader's answer to the report made at begun, or the error. It returns
// the nodes whose sessions this server must end.
func (h *hearing) answered(begun time.Time, answer ReportAnswer, err error) (end []NodeElsewhere) {
	if err != nil {
		h.full = true
		return nil
	}
	if answer.Again { // the leader has not taken the report
		h.full = true
		return nil
	}
	h.acked = begun
	for _, e := range answer.Elsewhere {
		n := h.nodes[e.NodeID]
		if n == nil || n.instance != e.Instance || n.session != e.Session {
			continue // the node has a newer session here
		}
		h.forget(e.NodeID)
		end = append(end, e)
	}
	return end
}

// cutOff reports whether the leader has not heard of this server for a lease, so that
// the server cannot grant leases to nodes.
func (h *hearing) cutOff(now time.Time, lease time.Duration) bool {
	return now.Sub(h.acked) > lease
}

// claim returns what is known of another agent process that uses the node's identity at this
// server and was heard within a lease; nil if there is none.
func (h *hearing) claim(who HeardNode, now time.Time, lease time.Duration) (other *heardNode) {
	n := h.nodes[who.NodeID]
	if n == nil || who.Instance == "" || n.instance == "" || n.instance == who.Instance || !now.Before(n.at.Add(lease)) {
		return nil
	}
	return n
}
