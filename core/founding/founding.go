// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package founding decides when servers that found each other by gossip begin a new
// cluster, and with which first members. It owns the tag by which a server says that it
// has a log. core/server and core/joining import it.
package founding

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/autopilot/pilot"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/membership"
)

// Values of TagLog, which says whether a server has a log: LogKept from an earlier
// process, or logNew because it has just begun a cluster.
const (
	TagLog  = "log"
	LogKept = "1"
	logNew  = "new"
)

// settled is the time for which the set of servers must not have changed before they found
// a cluster, so that all of them see the same set.
const settled = 500 * time.Millisecond

// Founder begins a new cluster together with the servers that expect as many as this one.
// All fields are required.
type Founder struct {
	Raft    *consensus.Node
	Members *membership.Membership
	// Expect is the number of first members.
	Expect int
	Logger hclog.Logger
}

// Run returns when this server has a log, or when ctx ends. A server that has a log, or
// sees another server with one, never founds a cluster: it waits until a leader adds it.
func (f Founder) Run(ctx context.Context) {
	said := ""
	for !f.Raft.HasLog() {
		changed := f.Members.Changed()
		first, why := Members(f.Members.Members(), f.Expect)
		if why != "" && why != said {
			f.Logger.Warn("no new cluster begins yet", "because", why)
			said = why
		}
		var ready <-chan time.Time
		late := time.NewTimer(settled)
		if first != nil {
			ready = late.C
		}
		select {
		case <-ready:
			f.begin(first)
		case <-changed:
		case <-ctx.Done():
			late.Stop()
			return
		}
		late.Stop()
	}
}

func (f Founder) begin(first []consensus.Server) {
	if err := f.Members.SetTag(TagLog, logNew); err != nil {
		f.Logger.Warn("the other servers do not hear that this one begins a cluster", "error", err)
	}
	if err := f.Raft.Bootstrap(first); err != nil {
		f.Logger.Error("this server could not begin a new cluster", "error", err)
		return
	}
	f.Logger.Info("a new cluster begins", "servers", len(first))
}

// Members returns the first members of a new cluster, sorted by id, or why it cannot be
// founded yet: one of the two results is empty. Every server that sees the same servers
// returns the same.
func Members(found []membership.Member, expect int) (first []consensus.Server, why string) {
	ids := map[string]bool{}
	for _, m := range found {
		switch {
		case m.Tags[TagLog] == LogKept:
			return nil, fmt.Sprintf("%s has the log of a cluster: that cluster's leader adds this server", m.Name)
		case m.Status != membership.Alive || m.Tags[pilot.TagReplica] != "":
			continue
		case m.Expect != expect:
			return nil, fmt.Sprintf("%s expects %d servers, and this one %d: set the same bootstrap_expect on all of them", m.Name, m.Expect, expect)
		case ids[m.ID]:
			return nil, fmt.Sprintf("two servers have the id %s: the data directory of one was copied", m.ID)
		}
		ids[m.ID] = true
		first = append(first, consensus.Server{ID: m.ID, Address: m.RPC, Voter: true})
	}
	slices.SortFunc(first, func(a, b consensus.Server) int { return strings.Compare(a.ID, b.ID) })
	switch {
	case len(first) < expect:
		return nil, fmt.Sprintf("%d of %d servers are there", len(first), expect)
	case len(first) > expect:
		return nil, fmt.Sprintf("%d servers are there, and bootstrap_expect is %d: stop those that are too many; they join when the cluster runs", len(first), expect)
	}
	return first, ""
}
