// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"net"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/core/agent"
	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Region returns the agent's region.
func (d *Daemon) Region() string { return d.cfg().Region }

// Regions lists the known regions.
func (d *Daemon) Regions() []string { return []string{d.cfg().Region} }

// SetServers replaces the servers that the node was configured with, until the agent
// ends.
func (d *Daemon) SetServers(addresses []string) error {
	switch {
	case !d.cfg().Client.Enabled:
		return errdefs.FailedPreconditionf("this agent runs no node; servers are set for agents that run only a node")
	case d.link == nil:
		return errdefs.FailedPreconditionf("the node of this agent has its server in the same process; servers are set for agents that run only a node")
	}
	full := make([]string, len(addresses))
	for i, a := range addresses {
		var err error
		if full[i], err = config.ServerAddress(a); err != nil {
			return err
		}
	}
	if err := d.link.SetServers(full); err != nil {
		return err
	}
	d.log.Info("an operator has set the servers of this node", "servers", full)
	return nil
}

func (d *Daemon) serverName() string { return d.cfg().Name + "." + d.cfg().Region }

// RaftConfiguration returns the members of the raft cluster. A single server has no
// transport, so its advertised address is used.
func (d *Daemon) RaftConfiguration(context.Context) (*api.RaftConfiguration, error) {
	servers, index, err := d.server.Raft().Configuration()
	if err != nil {
		return nil, err
	}
	out, names := &api.RaftConfiguration{Index: index}, d.names()
	for _, s := range servers {
		out.Servers = append(out.Servers, &api.RaftServer{
			ID: s.ID, Node: names[s.ID], Address: d.address(s), Leader: s.Leader, Voter: s.Voter, RaftProtocol: "3",
		})
	}
	return out, nil
}

// RemoveRaftPeer removes a server from the consensus group.
func (d *Daemon) RemoveRaftPeer(ctx context.Context, id, address string) error {
	to, _, err := d.peer(id, address)
	if err != nil {
		return err
	}
	return d.server.Raft().RemoveServer(ctx, to.ID)
}

// TransferLeadership makes another server the leader.
func (d *Daemon) TransferLeadership(ctx context.Context, id, address string) (*api.LeadershipTransfer, error) {
	to, from, err := d.peer(id, address)
	if err != nil {
		return nil, err
	}
	out := &api.LeadershipTransfer{From: from, To: to, Noop: from.ID == to.ID}
	if out.Noop {
		return out, nil
	}
	return out, d.server.Raft().TransferLeadership(ctx, to.ID)
}

// peer returns the server with an id or, if that is "", with an address, and the leader.
func (d *Daemon) peer(id, address string) (found, leader api.RaftPeer, err error) {
	servers, _, err := d.server.Raft().Configuration()
	if err != nil {
		return found, leader, err
	}
	for _, s := range servers {
		p := api.RaftPeer{ID: s.ID, Address: d.address(s)}
		if id != "" && p.ID == id || id == "" && p.Address == address {
			found = p
		}
		if s.Leader {
			leader = p
		}
	}
	switch {
	case found.ID != "":
		return found, leader, nil
	case id != "":
		return found, leader, errdefs.InvalidArgumentf("id %q was not found in the Raft configuration", id)
	}
	return found, leader, errdefs.InvalidArgumentf("address %q was not found in the Raft configuration", address)
}

// ownHealth returns the health of a server that is a cluster of its own.
func (d *Daemon) ownHealth() (*api.AutopilotHealth, error) {
	raft := d.server.Raft()
	stats := raft.Stats()
	term, _ := strconv.ParseUint(stats["term"], 10, 64) // raft's stats always have a number here
	leads := raft.IsLeader()
	out := &api.AutopilotHealth{Healthy: leads, Voters: []string{d.server.ID()}, Servers: []*api.AutopilotServer{{
		ID: d.server.ID(), Name: d.serverName(), Address: d.cfg().AdvertiseRPC(), SerfStatus: "alive", Version: d.version, Leader: leads,
		LastContact: "0s", LastTerm: term, LastIndex: raft.LastIndex(), Healthy: leads, Voter: true, StableSince: d.server.Started().UTC().Truncate(time.Second),
	}}}
	if leads {
		out.Leader = d.server.ID()
	}
	return out, nil
}

// member returns this agent as a server member, or nil if it runs only a node.
func (d *Daemon) member() *api.AgentMember {
	if d.server == nil {
		return &api.AgentMember{Status: "none"}
	}
	if m := d.server.Members(); m != nil {
		return shown(m.Self())
	}
	host, port, err := net.SplitHostPort(d.cfg().AdvertiseRPC())
	if err != nil {
		host, port = d.cfg().BindAddr, strconv.Itoa(d.cfg().Ports.RPC)
	}
	return &api.AgentMember{
		Name: d.serverName(), Addr: api.AgentAddr(host), Port: uint16(d.cfg().Ports.Serf), Status: "alive",
		Tags: map[string]string{
			"role": "nomad", "region": d.cfg().Region, "dc": d.cfg().Datacenter, "build": d.version, "revision": "", "vsn": "1", "raft_vsn": "3",
			"id": d.server.ID(), "rpc_addr": host, "port": port, "expect": strconv.Itoa(d.cfg().Server.BootstrapExpect), "bootstrap": "1",
		},
		ProtocolMin: 1, ProtocolMax: 5, ProtocolCur: 2, DelegateMin: 2, DelegateMax: 5, DelegateCur: 4,
	}
}

// Health reports whether the server and the node of the agent work.
func (d *Daemon) Health() *api.AgentHealth {
	out := &api.AgentHealth{}
	if d.server != nil {
		out.Server = &api.HealthStatus{Ok: d.Leader() != "", Message: "ok"}
		if !out.Server.Ok {
			out.Server.Message = "No cluster leader"
		}
		if err := d.server.ReadOnly(); err != nil {
			out.Server = &api.HealthStatus{Message: "read-only: " + err.Error()}
		}
	}
	if d.node != nil {
		out.Client = nodeHealth(d.node)
	}
	return out
}

func nodeHealth(node *agent.Agent) *api.HealthStatus {
	session := node.Session()
	switch {
	case session.Heard.IsZero() && session.Lost != nil:
		return &api.HealthStatus{Message: "the node has not registered yet: " + session.Lost.Error()}
	case session.Heard.IsZero():
		return &api.HealthStatus{Message: "the node has not registered yet"}
	case session.Lost != nil: // tasks keep running, and restarting the agent would not help
		return &api.HealthStatus{Ok: true, Message: "ok, but no session with a server: " + session.Lost.Error()}
	}
	return &api.HealthStatus{Ok: true, Message: "ok"}
}

// Self describes the agent. The names in the configuration are those that clients of
// the reference read.
func (d *Daemon) Self() *api.AgentSelf {
	c := d.cfg()
	return &api.AgentSelf{
		Config: map[string]any{
			"Region": c.Region, "Datacenter": c.Datacenter, "NodeName": c.Name, "DataDir": c.DataDir, "PluginDir": c.PluginDir,
			"LogLevel": c.LogLevel, "LogJson": c.LogJSON, "LogFile": c.LogFile, "BindAddr": c.BindAddr, "EnableDebug": c.EnableDebug,
			"DevMode": c.Dev, "Files": c.Files, "LeaveOnInt": c.LeaveOnInt, "LeaveOnTerm": c.LeaveOnTerm,
			"Ports":          map[string]any{"HTTP": c.Ports.HTTP, "RPC": c.Ports.RPC, "Serf": c.Ports.Serf},
			"Addresses":      map[string]any{"HTTP": c.BindAddr, "RPC": c.BindAddr, "Serf": c.BindAddr},
			"AdvertiseAddrs": map[string]any{"HTTP": d.httpAddr(), "RPC": c.AdvertiseRPC(), "Serf": c.AdvertiseSerf()},
			"ACL":            map[string]any{"Enabled": false},
			"Client":         map[string]any{"Enabled": c.Client.Enabled, "NodeClass": c.Client.NodeClass, "NodePool": c.Client.NodePool, "Meta": c.Client.Meta, "Servers": c.Client.Servers, "ServerJoin": map[string]any{"StartJoin": c.Client.ServerJoin.StartJoin, "RetryJoin": c.Client.ServerJoin.RetryJoin}, "AllocDir": c.Client.AllocDir, "StateDir": c.Client.StateDir},
			"Server":         map[string]any{"Enabled": c.Server.Enabled, "BootstrapExpect": c.Server.BootstrapExpect, "DataDir": c.Server.DataDir},
			"Telemetry":      map[string]any{"CollectionInterval": c.Telemetry.CollectionInterval, "PublishAllocationMetrics": c.Telemetry.PublishAllocationMetrics, "PublishNodeMetrics": c.Telemetry.PublishNodeMetrics, "PrometheusMetrics": c.Telemetry.PrometheusMetrics},
			"TLSConfig":      map[string]any{"EnableHTTP": c.TLS.HTTP, "EnableRPC": c.TLS.RPC, "VerifyServerHostname": c.TLS.VerifyServerHostname, "VerifyHTTPSClient": c.TLS.VerifyHTTPSClient, "CAFile": c.TLS.CAFile, "CertFile": c.TLS.CertFile, "KeyFile": c.TLS.KeyFile},
			"UI":             map[string]any{"Enabled": false},
			"Version":        map[string]any{"Version": d.version, "VersionPrerelease": "", "VersionMetadata": "", "Revision": ""},
		},
		Member: d.member(),
		Stats:  d.stats(),
	}
}

func (d *Daemon) stats() map[string]map[string]string {
	out := map[string]map[string]string{}
	if d.server != nil {
		out = d.serverStats()
	}
	out["runtime"] = map[string]string{"arch": runtime.GOARCH, "kernel.name": runtime.GOOS, "version": runtime.Version(), "cpu_count": strconv.Itoa(runtime.NumCPU()), "goroutines": strconv.Itoa(runtime.NumGoroutine()), "max_procs": strconv.Itoa(runtime.GOMAXPROCS(0))}
	if d.node != nil {
		out["client"] = d.nodeStats()
	}
	if doors := d.cfg().OpenDoors(); len(doors) > 0 {
		out[api.StatsDoors] = map[string]string{}
		for _, door := range doors {
			out[api.StatsDoors][door.Name] = door.String()
		}
	}
	return out
}

func (d *Daemon) nodeStats() map[string]string {
	session := d.node.Session()
	heard := "never"
	if !session.Heard.IsZero() {
		heard = time.Since(session.Heard).Round(time.Millisecond).String()
	}
	return map[string]string{
		"node_id": d.node.NodeID(), "known_servers": strings.Join(d.Servers(), ","), "num_allocations": strconv.Itoa(len(d.node.Allocs())),
		"connected": strconv.FormatBool(d.node.Connected()), "last_heartbeat": heard, "heartbeat_ttl": session.TTL.String(),
	}
}

func (d *Daemon) serverStats() map[string]map[string]string {
	broker, blocked, _, rows := d.server.Stats()
	tables := map[string]string{}
	for name, n := range rows {
		tables[name] = strconv.Itoa(n)
	}
	return map[string]map[string]string{
		"nomad": {
			"server": "true", "leader": strconv.FormatBool(d.server.Raft().IsLeader()), "leader_addr": d.Leader(), "bootstrap": "true",
			"known_regions": "1",
		},
		"raft":   d.server.Raft().Stats(),
		"broker": {"ready": strconv.Itoa(broker.Ready), "unacked": strconv.Itoa(broker.Unacked), "waiting": strconv.Itoa(broker.Waiting), "delayed": strconv.Itoa(broker.Delayed), "blocked": strconv.Itoa(blocked)},
		"state":  tables,
	}
}
