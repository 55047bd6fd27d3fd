// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/drover-project/drover/sdk/errdefs"
)

// pulse is a part of the agent that must answer for the agent to count as alive. Whether
// the answer is good does not matter: a server without a leader, or with a full disk,
// would not be better after a restart.
type pulse struct {
	name string
	ask  func(context.Context)
	busy atomic.Bool // a call of ask has not returned yet
}

// pulses returns the parts of the agent that run.
func (d *Daemon) pulses() []*pulse {
	out := []*pulse{{name: "the HTTP API", ask: d.askAPI}}
	if d.server != nil {
		out = append(out,
			&pulse{name: "the main loop of raft", ask: func(ctx context.Context) { _ = d.server.Raft().VerifyLeader(ctx) }}, // any error is an answer, too, unless ctx ends
			&pulse{name: "the state and the queue of evaluations", ask: func(context.Context) { d.server.Stats() }})
	}
	if d.node != nil {
		out = append(out,
			&pulse{name: "the allocs of the node", ask: func(context.Context) { d.node.Allocs() }},
			&pulse{name: "the node's session and description", ask: func(context.Context) { d.node.Session(); d.node.Node() }})
	}
	return out
}

// askAPI sends a request through all that requests pass, but the network.
func (d *Daemon) askAPI(ctx context.Context) {
	req := (&http.Request{
		Method: http.MethodGet, URL: &url.URL{Path: "/v1/agent/health"}, RequestURI: "/v1/agent/health", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Host: "localhost", RemoteAddr: "127.0.0.1:1",
	}).WithContext(ctx)
	d.api.Handler().ServeHTTP(discarded{}, req)
}

// discarded is an answer that nobody reads.
type discarded struct{}

func (discarded) Header() http.Header         { return http.Header{} }
func (discarded) Write(b []byte) (int, error) { return len(b), nil }
func (discarded) WriteHeader(int)             {}

// check asks all parts at once. If ctx ends first, it returns an error that names the parts
// that have not answered. While a part hangs, it is not asked again.
func check(ctx context.Context, parts []*pulse) error {
	answered := make([]chan struct{}, len(parts))
	for i, p := range parts {
		answered[i] = make(chan struct{})
		if !p.busy.CompareAndSwap(false, true) {
			continue
		}
		go func() {
			p.ask(ctx)
			p.busy.Store(false)
			if ctx.Err() == nil {
				close(answered[i])
			}
		}()
	}
	var silent []string
	for i, p := range parts {
		select {
		case <-answered[i]:
		case <-ctx.Done():
			silent = append(silent, p.name)
		}
	}
	if len(silent) > 0 {
		return errdefs.DeadlineExceededf("no answer from %s", strings.Join(silent, ", "))
	}
	return nil
}

// status describes the agent in one line, for systemctl status.
func (d *Daemon) status() string {
	var out []string
	if d.server != nil {
		leader := d.Leader()
		switch {
		case leader == "":
			out = append(out, "server, no leader")
		case d.server.Raft().IsLeader():
			out = append(out, "server, the leader")
		default:
			out = append(out, "server, the leader is "+leader)
		}
		if d.server.ReadOnly() != nil {
			out = append(out, "read-only because the disk is nearly full")
		}
	}
	if d.node != nil {
		text := fmt.Sprintf("node with %d allocs", len(d.node.Allocs()))
		if !d.node.Connected() {
			text += ", no session with a server"
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}
