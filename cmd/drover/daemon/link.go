// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/core/connlimit"
	"github.com/drover-project/drover/core/rpc"
)

// This file has the connections between machines: a server listens for nodes; an
// agent that runs only a node dials the servers and forwards requests to them.

// Limits of the connections that carry forwarded requests.
const (
	maxForwarded  = 512
	idleForwarded = time.Minute
)

// machineTLS returns the TLS configuration between machines.
func machineTLS(c *config.Config) rpc.TLS {
	t := c.TLS
	suites, _ := t.Suites() // Config.Finish has validated them
	return rpc.TLS{
		CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, Region: c.Region,
		VerifyServerHostname: t.VerifyServerHostname, Server: c.Server.Enabled && t.RPC, VerifyClients: t.VerifyHTTPSClient, MinVersion: t.Version(), CipherSuites: suites,
	}
}

// openTLS reads the agent's certificates if a port uses them.
func (d *Daemon) openTLS() (err error) {
	if t := d.cfg().TLS; t.HTTP || t.RPC {
		d.tls, err = machineTLS(d.cfg()).Open(d.log.Named("tls"))
	}
	return err
}

// rpcTLS returns the certificates of connections between machines; nil means no TLS.
func (d *Daemon) rpcTLS() *rpc.Credentials {
	if !d.cfg().TLS.RPC {
		return nil
	}
	return d.tls
}

// httpTLS returns the TLS configuration of the HTTP API; nil means plain HTTP.
func (d *Daemon) httpTLS() *tls.Config {
	if !d.cfg().TLS.HTTP {
		return nil
	}
	return d.tls.HTTP()
}

// listen opens the rpc port of the server. If the port is taken, a dev agent runs
// without it, since normally no nodes join a dev agent.
func (d *Daemon) listen() error {
	l, err := net.Listen("tcp", d.cfg().ListenRPC())
	if err != nil && d.cfg().Dev {
		d.log.Warn("nodes on other machines cannot join this agent: the rpc port is in use; set ports { rpc = N }", "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("listen for nodes and servers: %w; another agent may be running: stop it, or set ports { rpc = N }", err)
	}
	limits := d.cfg().Limits
	d.rpc = rpc.NewPort(connlimit.New(l, connsPerClient(limits.RPCMaxConnsPerClient), nil), rpc.PortConfig{
		Handshake: config.Duration(limits.RPCHandshakeTimeout, rpc.DefaultHandshake), TLS: d.rpcTLS(), Logger: d.log.Named("rpc"),
	})
	if d.cfg().Dev {
		return d.rpc.Raft().Close() // a dev agent is a cluster of its own
	}
	return nil
}

// serveNodes accepts nodes, and requests of servers, of other machines.
func (d *Daemon) serveNodes() {
	if d.rpc == nil {
		return
	}
	d.sessions = rpc.NewServerWithin(d.server.Sessions(), nil, d.log, config.Duration(d.cfg().Limits.RPCHandshakeTimeout, rpc.DefaultHandshake))
	d.server.Peers().Serve(d.sessions)
	d.work.Go(func() {
		if err := d.sessions.Serve(d.rpc.GRPC()); err != nil {
			d.log.Error("the listener for nodes on other machines has failed", "error", err)
		}
	})
}

// clientTLS returns the TLS configuration of connections to rpc ports; nil means no TLS.
func (d *Daemon) clientTLS() *tls.Config {
	if machine := d.rpcTLS(); machine != nil {
		return machine.Client()
	}
	return nil
}

// dialServers prepares the connection of an agent that runs only a node. The
// connection is made with the first request, and again whenever it is lost.
func (d *Daemon) dialServers() error {
	addresses := d.cfg().Client.ServerAddresses()
	rand.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] }) // spreads the nodes over the servers
	var err error
	d.link, err = rpc.DialAny(addresses, d.clientTLS())
	return err
}

// forward returns a handler that forwards requests to the servers.
func (d *Daemon) forward() http.Handler {
	return d.proxy(&http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return d.link.DialHTTP(ctx) },
		MaxConnsPerHost: maxForwarded, MaxIdleConnsPerHost: maxForwarded / 8, IdleConnTimeout: idleForwarded,
	}, func(err error) string {
		return fmt.Sprintf("this agent is only a node, and no server answers at %s: %v", strings.Join(d.link.Known(), ", "), err)
	})
}

// agentOf returns a handler that forwards requests to the agent of a node.
func (d *Daemon) agentOf(nodeID string) (http.Handler, error) {
	node, err := d.server.Endpoint().Nodes(nodeID)
	if err != nil {
		return nil, err
	}
	return d.proxy(&http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return rpc.DialNode(node), nil },
		DisableKeepAlives: true,
	}, func(err error) string { return fmt.Sprintf("the agent of node %s does not answer: %v", nodeID, err) }), nil
}

// proxy returns a handler that forwards requests unchanged.
func (d *Daemon) proxy(over *http.Transport, failure func(error) string) http.Handler {
	over.DisableCompression = true // the answer keeps its encoding
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "cluster"}) // the host name is not used
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		Transport:     over,
		FlushInterval: -1, // flush after each write, so that streams are not delayed
		ErrorLog:      d.log.Named("forward").StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			d.log.Debug("a request could not be forwarded", "method", r.Method, "path", r.URL.Path, "error", err)
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, failure(err)) // an error means that the client is gone
		},
	}
}
