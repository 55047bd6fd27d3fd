// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package testkit contains fixtures for tests of several packages: a real server in
// the test's process, nodes that hold real sessions but run nothing, and the HTTP
// API. It contains no product code; only tests import it.
package testkit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/backup"
	"github.com/drover-project/drover/core/control/gc"
	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/server"
	"github.com/drover-project/drover/internal/testkit/lifecycles"
	"github.com/drover-project/drover/sdk/errdefs"
)

// patience is the time limit for conditions. It is long, because tests run on loaded
// machines with the race detector.
const patience = time.Minute

// Cluster is a server that is the leader, and its API.
type Cluster struct {
	t *testing.T

	Server *server.Server
	*endpoint.Endpoint
	API *api.Server
	URL string

	sessions string // address to which nodes connect
}

// Start starts a server that stores everything in memory. It ends with the test.
func Start(t *testing.T) *Cluster { return StartIn(t, "") }

// StartIn starts a server that stores its state in a directory.
func StartIn(t *testing.T, dir string) *Cluster {
	t.Helper()
	return StartWith(t, server.Config{DataDir: dir})
}

// StartWith starts a server. Unset fields of cfg get values for tests.
func StartWith(t *testing.T, cfg server.Config) *Cluster {
	t.Helper()
	cfg.Dev, cfg.Region, cfg.Datacenter, cfg.Address = true, "global", "dc1", "127.0.0.1:4647"
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Workers == 0 {
		cfg.Workers = 2
	}
	if cfg.GC == (gc.Thresholds{}) {
		cfg.GC = gc.DefaultThresholds()
	}
	if cfg.LocalNode == nil {
		cfg.LocalNode = func() string { return "" }
	}
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	c := &Cluster{t: t, Server: s, Endpoint: s.Endpoint()}
	lifecycles.Check(t, c.Store)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.WaitLeader(ctx); err != nil {
		t.Fatal(err)
	}
	c.serveSessions()
	c.API = api.New(&backend{Endpoint: s.Endpoint(), server: s}, hclog.NewNullLogger(), api.Config{EnableDebug: true})
	web := httptest.NewServer(c.API.Handler())
	t.Cleanup(web.Close)
	c.URL = web.URL
	feed, stop := context.WithCancel(context.Background())
	fed := make(chan struct{})
	go func() { defer close(fed); c.API.Feed(feed) }()
	t.Cleanup(func() { stop(); <-fed })
	return c
}

// Sessions returns the address to which nodes connect.
func (c *Cluster) Sessions() string { return c.sessions }

// serveSessions accepts nodes over the network.
func (c *Cluster) serveSessions() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.sessions = l.Addr().String()
	srv := rpc.NewServer(c.Server.Sessions(), nil, hclog.NewNullLogger())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	c.t.Cleanup(func() {
		srv.Close()
		if err := <-served; err != nil {
			c.t.Errorf("serve the nodes: %v", err)
		}
	})
}

// Ask sends a request to the API and returns the response and its body. A body that
// is not a string is sent as JSON.
func (c *Cluster) Ask(method, path string, body any) (*http.Response, string) {
	c.t.Helper()
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		in = bytes.NewReader([]byte(b))
	case []byte:
		in = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			c.t.Fatal(err)
		}
		in = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, in)
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp, string(text)
}

// Must sends a request that must succeed, and decodes its answer into out.
func (c *Cluster) Must(method, path string, body, out any) {
	c.t.Helper()
	resp, text := c.Ask(method, path, body)
	if resp.StatusCode >= 300 {
		c.t.Fatalf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		c.t.Fatalf("%s %s: %v in %s", method, path, err, text)
	}
}

// Eventually waits until holds returns true.
func (c *Cluster) Eventually(claim string, holds func() bool) {
	c.t.Helper()
	Eventually(c.t, claim, holds)
}

// Eventually waits until holds returns true.
func Eventually(t *testing.T, claim string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(patience)
	defer end.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("not within %v: %s", patience, claim)
		}
	}
}

// backend adds the methods that only an agent implements to a server's endpoint.
type backend struct {
	*endpoint.Endpoint
	server *server.Server
}

var (
	_         api.Backend = (*backend)(nil)
	errAgent              = errdefs.Unimplementedf("testkit has no agent")
	errNobody             = errors.New("testkit has one server")
)

func (b *backend) Region() string                                     { return "global" }
func (b *backend) Regions() []string                                  { return []string{"global"} }
func (b *backend) Leader() string                                     { return "127.0.0.1:4647" }
func (b *backend) Peers() []string                                    { return []string{"127.0.0.1:4647"} }
func (b *backend) Servers() []string                                  { return []string{"127.0.0.1:4647"} }
func (b *backend) SetServers([]string) error                          { return errNobody }
func (b *backend) Self() *api.AgentSelf                               { return &api.AgentSelf{} }
func (b *backend) Members() *api.AgentMembers                         { return &api.AgentMembers{} }
func (b *backend) Health() *api.AgentHealth                           { return &api.AgentHealth{} }
func (b *backend) JoinServers(context.Context, []string) (int, error) { return 0, errNobody }
func (b *backend) ForceLeave(context.Context, string, bool) error     { return errNobody }
func (b *backend) GossipKeys(context.Context, string, string) (*api.GossipKeys, error) {
	return nil, errNobody
}
func (b *backend) Metrics(context.Context) *api.MetricsSummary          { return &api.MetricsSummary{} }
func (b *backend) Identity() api.Identity                               { return api.Identity{ServerID: b.server.ID()} }
func (b *backend) Host(context.Context) (*api.HostReport, error)        { return nil, errAgent }
func (b *backend) Reload(context.Context) error                         { return errAgent }
func (b *backend) Schedulers() *api.SchedulerWorkers                    { return &api.SchedulerWorkers{} }
func (b *backend) SetSchedulers(_ context.Context, n int) error         { return b.server.Workers().Set(n) }
func (b *backend) RemoveRaftPeer(context.Context, string, string) error { return errNobody }
func (b *backend) TransferLeadership(context.Context, string, string) (*api.LeadershipTransfer, error) {
	return nil, errNobody
}

func (b *backend) SaveSnapshot(ctx context.Context) (*api.Snapshot, error) {
	return b.server.Snapshots().Save(ctx)
}
func (b *backend) SnapshotSchedule() (*backup.Status, error) { return b.server.SnapshotSchedule() }
func (b *backend) StateDigest(ctx context.Context) (*api.StateDigest, error) {
	return b.server.Snapshots().Digest(ctx)
}
func (b *backend) RestoreSnapshot(ctx context.Context, r io.Reader) error {
	return b.server.Snapshots().Restore(ctx, r)
}
func (b *backend) AutopilotHealth(context.Context) (*api.AutopilotHealth, error) {
	return &api.AutopilotHealth{}, nil
}
func (b *backend) RaftConfiguration(context.Context) (*api.RaftConfiguration, error) {
	return &api.RaftConfiguration{}, nil
}
func (b *backend) Monitor(context.Context, *api.MonitorRequest, func() error, func([]byte) error) error {
	return errAgent
}
func (b *backend) ExportLogs(context.Context, *api.ExportRequest, func([]byte) error) error {
	return errAgent
}
