// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

// AgentSelf reads what the agent says about itself.
func (c *Client) AgentSelf(ctx context.Context) (*api.AgentSelf, error) {
	out, _, err := get[*api.AgentSelf](ctx, c, "/v1/agent/self", nil)
	return out, err
}

// Members lists the servers.
func (c *Client) Members(ctx context.Context) (*api.AgentMembers, error) {
	out, _, err := get[*api.AgentMembers](ctx, c, "/v1/agent/members", nil)
	return out, err
}

// AgentHealth reads the health of the agent's sides. An agent that is not well is an error with the same text.
func (c *Client) AgentHealth(ctx context.Context) (*api.AgentHealth, error) {
	out, _, err := get[*api.AgentHealth](ctx, c, "/v1/agent/health", nil)
	return out, err
}

// Servers lists the servers that the agent's node side knows.
func (c *Client) Servers(ctx context.Context) ([]string, error) {
	out, _, err := get[[]string](ctx, c, "/v1/agent/servers", nil)
	return out, err
}

// Join makes the agent's server join others.
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

// ForceLeave forgets a failed server.
func (c *Client) ForceLeave(ctx context.Context, name string) error {
	_, err := c.Put(ctx, "/v1/agent/force-leave", withParam(nil, "node", name), nil, nil)
	return err
}

// Monitor streams the agent's log lines. The caller closes it.
func (c *Client) Monitor(ctx context.Context, level string) (io.ReadCloser, error) {
	return c.Raw(ctx, "/v1/agent/monitor", &Query{Params: url.Values{"log_level": {level}, "plain": {"true"}}})
}

// Metrics reads the agent's metrics.
func (c *Client) Metrics(ctx context.Context) (*api.MetricsSummary, error) {
	out, _, err := get[*api.MetricsSummary](ctx, c, "/v1/metrics", nil)
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
func (c *Client) RaftConfiguration(ctx context.Context) (*api.RaftConfiguration, error) {
	out, _, err := get[*api.RaftConfiguration](ctx, c, "/v1/operator/raft/configuration", nil)
	return out, err
}

// RemoveRaftPeer takes a server out of the consensus group.
func (c *Client) RemoveRaftPeer(ctx context.Context, id, address string) error {
	q := &Query{Params: url.Values{}}
	if id != "" {
		q.Params.Set("id", id)
	}
	if address != "" {
		q.Params.Set("address", address)
	}
	_, err := c.Delete(ctx, "/v1/operator/raft/peer", q, nil, nil)
	return err
}

// SchedulerConfig reads the configuration of the scheduler.
func (c *Client) SchedulerConfig(ctx context.Context) (*model.SchedulerConfiguration, error) {
	out, _, err := get[struct{ SchedulerConfig *model.SchedulerConfiguration }](ctx, c, "/v1/operator/scheduler/configuration", nil)
	return out.SchedulerConfig, err
}

// SetSchedulerConfig changes the configuration of the scheduler, if cas is nil
// or equals its ModifyIndex. It reports whether it did.
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

// GarbageCollect makes the servers forget what is over.
func (c *Client) GarbageCollect(ctx context.Context) error {
	_, err := c.call(ctx, http.MethodPut, "/v1/system/gc", c.params(nil), nil, nil)
	return err
}

// ReconcileSummaries makes the servers count the allocs of all jobs anew.
func (c *Client) ReconcileSummaries(ctx context.Context) error {
	_, err := c.call(ctx, http.MethodPut, "/v1/system/reconcile/summaries", c.params(nil), nil, nil)
	return err
}
