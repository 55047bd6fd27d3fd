// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"crypto/tls"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// serverBackend is the backend of the API of an agent that runs a server.
type serverBackend struct {
	*Daemon
	*endpoint.Endpoint
}

var _ api.Backend = serverBackend{}

// NodeCluster asks the agent's own node directly, because that node may have refused
// this server.
func (b serverBackend) NodeCluster(ctx context.Context, nodeID string, trust bool) (any, error) {
	if b.node != nil && (nodeID == "" || nodeID == b.node.NodeID()) {
		return b.ownCalls().NodeCluster(ctx, nodeID, trust)
	}
	return b.Endpoint.NodeCluster(ctx, nodeID, trust)
}

// nodeBackend is the backend of the API of an agent that runs only a node. It
// answers the requests that are not forwarded to the servers.
type nodeBackend struct {
	*Daemon
	endpoint.Calls
}

var _ api.Local = nodeBackend{}

// newAPI returns the HTTP API for the role of this agent.
func (d *Daemon) newAPI() *api.Server {
	cfg := d.apiConfig(d.httpTLS())
	if d.server != nil {
		if n := d.cfg().Server.EventBufferSize; n != nil {
			cfg.EventBuffer = *n
		}
		search := d.cfg().Server.Search
		cfg.Search = api.SearchLimits{NoFuzzy: search.Fuzzy != nil && !*search.Fuzzy, Results: search.LimitResults, ShortTerm: search.MinTermLength}
		if on := d.cfg().Server.EventBroker; on != nil {
			cfg.NoEvents = !*on
		}
		cfg.AgentOf, cfg.Leader = d.agentOf, d.server.Peers()
		return api.New(serverBackend{d, d.server.Endpoint()}, d.log, cfg)
	}
	return api.NewNode(nodeBackend{d, d.ownCalls()}, d.node.HasAlloc, d.forward(), d.log, cfg)
}

// apiConfig returns the part of the API's configuration that comes from the agent's.
func (d *Daemon) apiConfig(secure *tls.Config) api.Config {
	limits := d.cfg().Limits
	return api.Config{
		EnableDebug: d.cfg().EnableDebug, Prometheus: d.cfg().Telemetry.PrometheusMetrics, Headers: d.cfg().Headers, Hosts: d.cfg().HTTPNames(), TLS: secure,
		ConnsPerClient: connsPerClient(limits.HTTPMaxConnsPerClient),
		Handshake:      config.Duration(limits.HTTPSHandshakeTimeout, api.DefaultHandshake),
	}
}

// ownCalls returns the calls to this agent's node.
func (d *Daemon) ownCalls() endpoint.Calls {
	return endpoint.Calls{
		OfAlloc: func(string) (rpc.Node, error) { return d.node, nil }, // the node returns an error if it does not have the alloc
		ByID: func(id string) (rpc.Node, error) {
			if id != "" && id != d.node.NodeID() {
				return nil, errdefs.NotFoundf("Unknown node %q", id)
			}
			return d.node, nil
		},
	}
}
