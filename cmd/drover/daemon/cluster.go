// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/autopilot"
	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/joining"
	"github.com/drover-project/drover/core/membership"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/server"
	"github.com/drover-project/drover/sdk/errdefs"
)

// This file connects the agent with the other servers, and answers requests about them.

// startServer starts the server, and joins the servers that it must find at its start.
func (d *Daemon) startServer(ctx context.Context) error {
	cfg := d.serverConfig()
	cfg.PeerTLS = d.clientTLS()
	if !d.cfg().Dev {
		d.clusterConfig(&cfg)
	}
	var err error
	if cfg.Schedule, err = d.schedule(cfg.DataDir); err != nil {
		return err
	}
	if d.server, err = server.New(cfg); err != nil {
		return err
	}
	d.server.Start()
	start := d.cfg().Join().StartJoin
	if len(start) == 0 {
		return nil
	}
	n, err := d.server.Join(ctx, start)
	if err != nil {
		return fmt.Errorf("join the servers of start_join (servers of retry_join may be absent at the start): %w", err)
	}
	d.log.Info("joined other servers", "count", n)
	return nil
}

// schedule returns the configuration of the leader's scheduled snapshots, or nil without a
// snapshot block.
func (d *Daemon) schedule(scratch string) (*server.Schedule, error) {
	c := d.cfg().Snapshot
	if c == nil {
		return nil, nil
	}
	store, err := c.Store(scratch)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return &server.Schedule{Interval: c.Every(), Retain: c.Keep(), Prefix: c.NamePrefix(), Store: store}, nil
}

// clusterConfig adds how the server finds and reaches others.
func (d *Daemon) clusterConfig(cfg *server.Config) {
	c, join := d.cfg().Server, d.cfg().Join()
	cfg.Raft = server.RaftConfig{Listener: d.rpc.Raft(), Dial: rpc.DialRaft(d.rpcTLS()), Alone: c.BootstrapExpect == 1, Multiplier: c.Multiplier()}
	cfg.Gossip = &joining.Gossip{
		Config: membership.Config{
			Name: d.cfg().Name, Version: d.version, Listen: d.cfg().ListenSerf(), Advertise: d.cfg().AdvertiseSerf(),
			Expect: c.BootstrapExpect, Key: c.Encrypt, RejoinAfterLeave: c.RejoinAfterLeave,
		},
		RetryJoin: join.RetryJoin, RetryMax: join.RetryMax, RetryInterval: config.Duration(join.RetryInterval, 0),
	}
}

// awaitLeader waits until the server leads if no other can. A server of several starts
// without a leader, so that its API can say what it lacks.
func (d *Daemon) awaitLeader(ctx context.Context) error {
	if !d.server.Alone() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.startTimeout())
	defer cancel()
	return d.server.WaitLeader(ctx)
}

// Members returns all servers.
func (d *Daemon) Members() *api.AgentMembers {
	out := &api.AgentMembers{ServerName: d.cfg().Name, ServerRegion: d.cfg().Region, ServerDC: d.cfg().Datacenter}
	if d.server == nil || d.server.Members() == nil {
		out.Members = []*api.AgentMember{d.member()}
		return out
	}
	for _, m := range d.server.Members().Members() {
		out.Members = append(out.Members, shown(m))
	}
	return out
}

func shown(m membership.Member) *api.AgentMember {
	return &api.AgentMember{
		Name: m.Name, Addr: api.AgentAddr(m.Address), Port: m.Port, Status: m.Status, Tags: m.Tags,
		ProtocolMin: m.ProtocolMin, ProtocolMax: m.ProtocolMax, ProtocolCur: m.ProtocolCur,
		DelegateMin: m.DelegateMin, DelegateMax: m.DelegateMax, DelegateCur: m.DelegateCur,
	}
}

// JoinServers joins servers at these addresses.
func (d *Daemon) JoinServers(ctx context.Context, addresses []string) (int, error) {
	full, err := d.cfg().GossipAddresses(addresses)
	if err != nil {
		return 0, err
	}
	return d.server.Join(ctx, full)
}

// ForceLeave marks a failed server as left; prune also removes it from the list.
func (d *Daemon) ForceLeave(ctx context.Context, name string, prune bool) error {
	m := d.server.Members()
	if m == nil {
		return errdefs.FailedPreconditionf("a development agent knows no other servers")
	}
	return m.ForceLeave(ctx, name, prune)
}

// Leader returns the rpc address of the leader, or "" if there is none.
func (d *Daemon) Leader() string {
	leader, known := d.server.Raft().Leader()
	if !known {
		return ""
	}
	return d.address(leader)
}

// Peers returns the rpc addresses of the voters.
func (d *Daemon) Peers() []string {
	servers, _, err := d.server.Raft().Configuration()
	if err != nil {
		return []string{} // the server is ending
	}
	out := []string{}
	for _, s := range servers {
		if s.Voter {
			out = append(out, d.address(s))
		}
	}
	return out
}

// Servers returns the servers that the node knows.
func (d *Daemon) Servers() []string {
	if d.link != nil {
		return d.link.Known()
	}
	return d.server.Addresses()
}

// names returns the names of the servers by id.
func (d *Daemon) names() map[string]string {
	out := map[string]string{}
	if m := d.server.Members(); m != nil {
		for _, f := range m.Members() {
			if out[f.ID] == "" || f.Status == membership.Alive {
				out[f.ID] = f.Name
			}
		}
	}
	out[d.server.ID()] = d.serverName()
	return out
}

// address returns the rpc address of a member. A development agent has no address in
// raft.
func (d *Daemon) address(s consensus.Server) string {
	if s.ID == d.server.ID() {
		return d.cfg().AdvertiseRPC()
	}
	return s.Address
}

// GossipKeys changes or lists the keys of the gossip: "list", "install", "use" or
// "remove".
func (d *Daemon) GossipKeys(_ context.Context, verb, key string) (*api.GossipKeys, error) {
	m := d.server.Members()
	if m == nil {
		return nil, errdefs.FailedPreconditionf("a development agent does not gossip")
	}
	var r *membership.KeyReport
	var err error
	switch verb {
	case "install":
		r, err = m.InstallKey(key)
	case "use":
		r, err = m.UseKey(key)
	case "remove":
		r, err = m.RemoveKey(key)
	default:
		r, err = m.ListKeys()
	}
	if err != nil {
		return nil, err
	}
	return &api.GossipKeys{Messages: r.Messages, Keys: r.Keys, PrimaryKeys: r.Primary, NumNodes: r.Servers}, nil
}

// AutopilotHealth returns the health of the servers. A follower knows only that there is
// a leader.
func (d *Daemon) AutopilotHealth(context.Context) (*api.AutopilotHealth, error) {
	view, leads := d.server.Pilot().Health()
	if !leads {
		if d.server.Members() == nil {
			return d.ownHealth()
		}
		return &api.AutopilotHealth{Voters: []string{}}, nil
	}
	out := &api.AutopilotHealth{Healthy: true, Leader: view.Self, Voters: []string{}}
	known := map[string]membership.Member{}
	for _, m := range d.server.Members().Members() {
		if known[m.ID].Status != membership.Alive {
			known[m.ID] = m
		}
	}
	for _, p := range view.Peers {
		m, r := known[p.ID], view.Reports[p.ID]
		ok := view.Healthy(view.Config, p.ID)
		x := &api.AutopilotServer{
			ID: p.ID, Name: m.Name, Address: p.Address, SerfStatus: m.Status, Version: m.Version, Leader: p.ID == view.Self,
			LastContact: view.LastContact(p.ID).String(), LastTerm: r.LastTerm, LastIndex: r.LastIndex, Healthy: ok, Voter: p.Voter, StableSince: view.StableSince[p.ID].UTC().Truncate(time.Second),
		}
		if x.Leader {
			x.LastContact, x.LastTerm, x.LastIndex = "0s", view.Term, view.LastIndex
		}
		out.Servers = append(out.Servers, x)
		out.Healthy = out.Healthy && ok
		if p.Voter {
			out.Voters = append(out.Voters, p.ID)
		}
	}
	out.FailureTolerance = autopilot.Tolerance(view.Scene, view.Config)
	return out, nil
}
