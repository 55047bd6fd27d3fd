// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/backup"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// AgentSelf returns the agent's information about itself.
func (c *Client) AgentSelf(ctx context.Context) (*api.AgentSelf, error) {
	out, _, err := get[*api.AgentSelf](ctx, c, "/v1/agent/self", nil)
	return out, err
}

// Members lists the servers.
func (c *Client) Members(ctx context.Context) (*api.AgentMembers, error) {
	out, _, err := get[*api.AgentMembers](ctx, c, "/v1/agent/members", nil)
	return out, err
}

// AgentHealth returns the health of the agent's sides. If the agent is unhealthy, it
// returns an error with the same text.
func (c *Client) AgentHealth(ctx context.Context) (*api.AgentHealth, error) {
	out, _, err := get[*api.AgentHealth](ctx, c, "/v1/agent/health", nil)
	return out, err
}

// Servers lists the servers that the agent's node side knows.
func (c *Client) Servers(ctx context.Context) ([]string, error) {
	out, _, err := get[[]string](ctx, c, "/v1/agent/servers", nil)
	return out, err
}

// SetServers sets the servers to which the agent's node side connects.
func (c *Client) SetServers(ctx context.Context, addrs []string) error {
	_, err := c.Put(ctx, "/v1/agent/servers", &Query{Params: url.Values{"address": addrs}}, nil, nil)
	return err
}

// Join makes the agent's server join a cluster.
func (c *Client) Join(ctx context.Context, addrs []string) (joined int, failure string, err error) {
	out, err := put[struct {
		NumJoined int    `json:"num_joined"`
		Error     string `json:"error"`
	}](ctx, c, "/v1/agent/join", &Query{Params: url.Values{"address": addrs}}, nil)
	if err != nil {
		return 0, "", err
	}
	return out.NumJoined, out.Error, nil
}

// GossipKeys changes or lists the keys of the servers' gossip: verb is "list", "install",
// "use" or "remove".
func (c *Client) GossipKeys(ctx context.Context, verb, key string) (*api.GossipKeys, error) {
	path := "/v1/agent/keyring/" + verb
	if verb == "list" {
		out, _, err := get[*api.GossipKeys](ctx, c, path, nil)
		return out, err
	}
	out := &api.GossipKeys{}
	_, err := c.Put(ctx, path, nil, &api.GossipKey{Key: key}, out)
	return out, err
}

// ForceLeave marks a failed server as left; prune removes it from lists at once.
func (c *Client) ForceLeave(ctx context.Context, name string, prune bool) error {
	q := withParam(nil, "node", name)
	if prune {
		q.Params.Set("prune", "true")
	}
	_, err := c.Put(ctx, "/v1/agent/force-leave", q, nil, nil)
	return err
}

// Monitor streams the log lines of an agent. params may contain "log_level",
// "log_json", "log_include_location", and "node_id" or "server_id" of another agent.
// The caller closes the stream.
func (c *Client) Monitor(ctx context.Context, params url.Values) (io.ReadCloser, error) {
	params.Set("plain", "true")
	return c.Raw(ctx, "/v1/agent/monitor", &Query{Params: params})
}

// ExportLogs returns an agent's past log, from a log file or the journal. The caller
// closes it.
func (c *Client) ExportLogs(ctx context.Context, params url.Values) (io.ReadCloser, error) {
	params.Set("plain", "true")
	return c.Raw(ctx, "/v1/agent/monitor/export", &Query{Params: params})
}

// Metrics reads the agent's metrics.
func (c *Client) Metrics(ctx context.Context) (*api.MetricsSummary, error) {
	out, _, err := get[*api.MetricsSummary](ctx, c, "/v1/metrics", &Query{Params: url.Values{"histograms": {"true"}}})
	return out, err
}

// Leader reads the leader's RPC address.
func (c *Client) Leader(ctx context.Context) (string, error) {
	out, _, err := get[string](ctx, c, "/v1/status/leader", nil)
	return out, err
}

// Peers lists the RPC addresses of the voters.
func (c *Client) Peers(ctx context.Context) ([]string, error) {
	out, _, err := get[[]string](ctx, c, "/v1/status/peers", nil)
	return out, err
}

// Regions lists the regions.
func (c *Client) Regions(ctx context.Context) ([]string, error) {
	out, _, err := get[[]string](ctx, c, "/v1/regions", nil)
	return out, err
}

// RaftConfiguration reads the consensus group.
func (c *Client) RaftConfiguration(ctx context.Context, q *Query) (*api.RaftConfiguration, error) {
	out, _, err := get[*api.RaftConfiguration](ctx, c, "/v1/operator/raft/configuration", q)
	return out, err
}

// peer returns the parameters that name a server by its id or its address.
func peer(id, address string) *Query {
	q := &Query{Params: url.Values{}}
	if id != "" {
		q.Params.Set("id", id)
	}
	if address != "" {
		q.Params.Set("address", address)
	}
	return q
}

// RemoveRaftPeer takes a server out of the consensus group.
func (c *Client) RemoveRaftPeer(ctx context.Context, id, address string) error {
	_, err := c.Delete(ctx, "/v1/operator/raft/peer", peer(id, address), nil, nil)
	return err
}

// TransferLeadership makes another server the leader.
func (c *Client) TransferLeadership(ctx context.Context, id, address string) error {
	_, err := c.Put(ctx, "/v1/operator/raft/transfer-leadership", peer(id, address), nil, nil)
	return err
}

// AutopilotHealth returns the health of the servers. Unhealthy servers are not an
// error.
func (c *Client) AutopilotHealth(ctx context.Context) (*api.AutopilotHealth, error) {
	answer, err := c.Do(ctx, &Request{Method: http.MethodGet, Path: "/v1/operator/autopilot/health"})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 8<<20))
	if err != nil {
		return nil, fmt.Errorf("read the health of the servers: %w", err)
	}
	out := &api.AutopilotHealth{}
	if err := json.Unmarshal(body, out); err != nil {
		return nil, errdefs.New(classOf(answer.Status), &Error{Status: answer.Status, Text: strings.TrimSpace(string(body))})
	}
	return out, nil
}

// AutopilotConfig is the autopilot configuration.
type AutopilotConfig struct {
	CleanupDeadServers      bool
	LastContactThreshold    string
	MaxTrailingLogs         uint64
	MinQuorum               uint
	ServerStabilizationTime string
	EnableRedundancyZones   bool
	DisableUpgradeMigration bool
	EnableCustomUpgrades    bool
	CreateIndex             uint64
	ModifyIndex             uint64
}

// AutopilotConfig returns the autopilot configuration.
func (c *Client) AutopilotConfig(ctx context.Context) (*AutopilotConfig, error) {
	out, _, err := get[*AutopilotConfig](ctx, c, "/v1/operator/autopilot/configuration", nil)
	return out, err
}

// SetAutopilotConfig changes the autopilot configuration, if cas is nil or equals its
// ModifyIndex.
func (c *Client) SetAutopilotConfig(ctx context.Context, cfg *AutopilotConfig, cas *uint64) (updated bool, err error) {
	out, err := put[bool](ctx, c, "/v1/operator/autopilot/configuration", casParam(cas), cfg)
	if err != nil {
		return false, err
	}
	return *out, nil
}

// SaveSnapshot returns a snapshot of the servers' state. The caller closes it.
func (c *Client) SaveSnapshot(ctx context.Context, stale bool) (*Answer, error) {
	r := &Request{Method: http.MethodGet, Path: "/v1/operator/snapshot"}
	if stale {
		r.Params = url.Values{"stale": {"true"}}
	}
	return c.success(ctx, r)
}

// StateDigest reads the digest of the state of the server that is asked.
func (c *Client) StateDigest(ctx context.Context) (*api.StateDigest, error) {
	out, _, err := get[*api.StateDigest](ctx, c, "/v1/operator/state/digest", nil)
	return out, err
}

// SnapshotSchedule returns the results of the leader's scheduled snapshots.
func (c *Client) SnapshotSchedule(ctx context.Context) (*backup.Status, error) {
	out, _, err := get[*backup.Status](ctx, c, "/v1/operator/snapshot/schedule", nil)
	return out, err
}

// RestoreSnapshot replaces the state of the servers.
func (c *Client) RestoreSnapshot(ctx context.Context, snapshot io.Reader) error {
	answer, err := c.success(ctx, &Request{Method: http.MethodPut, Path: "/v1/operator/snapshot", Body: snapshot})
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// success is Do for requests whose answer must be a success.
func (c *Client) success(ctx context.Context, r *Request) (*Answer, error) {
	answer, err := c.Do(ctx, r)
	if err != nil || answer.Status < 300 {
		return answer, err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20)) // a partial text is still useful
	return nil, errdefs.New(classOf(answer.Status), &Error{Status: answer.Status, Text: strings.TrimSpace(string(text))})
}

// RootKey is a root key of the cluster.
type RootKey struct {
	KeyID       string
	Algorithm   string
	State       string
	CreateTime  int64 // Unix ns
	PublishTime int64 // Unix ns
	CreateIndex uint64
	ModifyIndex uint64
}

// RootKeys lists the root keys.
func (c *Client) RootKeys(ctx context.Context) ([]*RootKey, error) {
	out, _, err := get[[]*RootKey](ctx, c, "/v1/operator/keyring/keys", nil)
	return out, err
}

// RotateRootKey creates a new root key. full re-encrypts all variables; publish is the
// time (Unix ns) at which it becomes active, 0 for at once.
func (c *Client) RotateRootKey(ctx context.Context, full bool, publish int64) (*RootKey, error) {
	q := &Query{Params: url.Values{}}
	if full {
		q.Params.Set("full", "true")
	}
	if publish != 0 {
		q.Params.Set("publish_time", strconv.FormatInt(publish, 10))
	}
	out, err := put[struct{ Key *RootKey }](ctx, c, "/v1/operator/keyring/rotate", q, nil)
	if err != nil {
		return nil, err
	}
	return out.Key, nil
}

// RemoveRootKey removes a root key that encrypts nothing any more. It fails if variables
// are encrypted with the key, and without force also if living tasks may have tokens that it
// has signed.
func (c *Client) RemoveRootKey(ctx context.Context, id string, force bool) error {
	var q *Query
	if force {
		q = &Query{Params: url.Values{"force": {"true"}}}
	}
	_, err := c.Delete(ctx, "/v1/operator/keyring/key/"+url.PathEscape(id), q, nil, nil)
	return err
}

// SchedulerConfig reads the configuration of the scheduler.
func (c *Client) SchedulerConfig(ctx context.Context) (*model.SchedulerConfiguration, error) {
	out, _, err := get[struct{ SchedulerConfig *model.SchedulerConfiguration }](ctx, c, "/v1/operator/scheduler/configuration", nil)
	return out.SchedulerConfig, err
}

// QueueLanes reads the lanes of the leader's queue of evaluations.
func (c *Client) QueueLanes(ctx context.Context) ([]*api.QueueLane, error) {
	out, _, err := get[[]*api.QueueLane](ctx, c, "/v1/operator/scheduler/queue", nil)
	return out, err
}

// SetSchedulerConfig changes the scheduler configuration, if cas is nil or equals its
// ModifyIndex. It reports whether it did.
func (c *Client) SetSchedulerConfig(ctx context.Context, cfg *model.SchedulerConfiguration, cas *uint64) (bool, error) {
	q := &Query{}
	if cas != nil {
		q = withParam(q, "cas", strconv.FormatUint(*cas, 10))
	}
	out, err := put[struct{ Updated bool }](ctx, c, "/v1/operator/scheduler/configuration", q, cfg)
	if err != nil {
		return false, err
	}
	return out.Updated, nil
}

// GarbageCollect runs garbage collection on the servers.
func (c *Client) GarbageCollect(ctx context.Context) error {
	_, err := c.call(ctx, http.MethodPut, "/v1/system/gc", c.params(nil), nil, nil)
	return err
}

// ReconcileSummaries makes the servers recount the allocs of all jobs.
func (c *Client) ReconcileSummaries(ctx context.Context) error {
	_, err := c.call(ctx, http.MethodPut, "/v1/system/reconcile/summaries", c.params(nil), nil, nil)
	return err
}

// OneTimeToken returns a one-time secret with the rights of the client's token.
func (c *Client) OneTimeToken(ctx context.Context) (string, error) {
	out, err := put[struct {
		OneTimeToken struct{ OneTimeSecretID string }
	}](ctx, c, "/v1/acl/token/onetime", nil, nil)
	if err != nil {
		return "", err
	}
	return out.OneTimeToken.OneTimeSecretID, nil
}
