// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// leavePoll is the time between two queries for the progress of the drain.
	leavePoll = 250 * time.Millisecond
	// leaveGrace is the time that a drain may take after its deadline, in addition to
	// the longest kill timeout.
	leaveGrace = 10 * time.Second
	// leaveCall is the time limit of one request to the servers.
	leaveCall = 10 * time.Second
	// leaveServer is the time limit for a server to leave.
	leaveServer = 15 * time.Second
)

// leaves reports whether the agent leaves its cluster when it is stopped by this signal:
// its node drains itself, and its server stops being a member.
func leaves(c *config.Config, sig os.Signal) bool {
	asked := c.LeaveOnTerm
	if sig == os.Interrupt {
		asked = c.LeaveOnInt
	}
	return asked && (drains(c) || c.Server.Enabled && !c.Dev)
}

func drains(c *config.Config) bool { return c.Client.Enabled && c.Client.Drain != nil }

// Leave drains the node, and then takes the server out of its cluster.
func (d *Daemon) Leave(ctx context.Context) error {
	var err error
	if d.node != nil && drains(d.cfg()) {
		err = d.drainNode(ctx)
	}
	if d.server == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, leaveServer)
	defer cancel()
	return errors.Join(err, d.server.Leave(ctx))
}

// drainNode waits until the drain of the node is complete and its allocs have ended, at most
// until its deadline and the time that they may take to end.
func (d *Daemon) drainNode(ctx context.Context) error {
	spec := d.cfg().Client.Drain.Spec()
	wait := spec.Deadline
	if wait < 0 { // the deadline is "force"
		wait = 0
	}
	ctx, cancel := context.WithTimeout(ctx, wait+config.Duration(d.cfg().Client.MaxKillTimeout, 0)+leaveGrace)
	defer cancel()
	d.log.Info("the node leaves; draining its allocs first", "deadline", spec.Deadline, "ignore_system_jobs", spec.IgnoreSystemJobs)
	if err := d.departure().begin(ctx, api.DrainSpec{Deadline: spec.Deadline, IgnoreSystemJobs: spec.IgnoreSystemJobs}); err != nil {
		return fmt.Errorf("drain the node: %w", err)
	}
	tick := time.NewTicker(leavePoll)
	defer tick.Stop()
	for {
		var n model.Node
		if err := d.asNode(ctx, http.MethodGet, "", nil, &n); err == nil && n.DrainStrategy == nil {
			// At its deadline, and with force at once, a drain is over when its allocs are marked.
			if cancelled := n.LastDrain == nil || n.LastDrain.Status != model.DrainStatusComplete; cancelled || d.node.Remaining(spec.IgnoreSystemJobs) == 0 {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the node was not drained in time: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func (d *Daemon) departure() *departure {
	return &departure{ask: d.asNode, nodeID: d.node.NodeID(), file: filepath.Join(d.dataDir, "client", "returned")}
}

// comeBack makes a node eligible again that had drained itself.
func (d *Daemon) comeBack(ctx context.Context) error {
	if d.cfg().Client.Drain == nil {
		return nil
	}
	select {
	case <-d.node.Ready():
	case <-ctx.Done():
		return nil
	}
	return d.departure().end(ctx)
}

// asNode sends a request about the agent's node to this agent's API, which forwards
// it to the servers.
func (d *Daemon) asNode(ctx context.Context, method, what string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, leaveCall)
	defer cancel()
	payload, err := json.Marshal(body)
	if err != nil {
		return errdefs.Internalf("encode a request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost/v1/node/"+d.node.NodeID()+what, bytes.NewReader(payload))
	if err != nil {
		return errdefs.Internalf("make a request: %w", err)
	}
	over := &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return rpc.DialNode(d.node), nil },
		DisableKeepAlives: true,
	}
	resp, err := over.RoundTrip(req)
	if err != nil {
		return errdefs.Unavailablef("ask the servers: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return errdefs.Unavailablef("read the answer of the servers: %w", err)
	}
	switch {
	case resp.StatusCode == http.StatusOK:
	case resp.StatusCode/100 == 4:
		return errdefs.FailedPreconditionf("the servers refused with %d: %s", resp.StatusCode, bytes.TrimSpace(text))
	default:
		return errdefs.Unavailablef("the servers answered %d: %s", resp.StatusCode, bytes.TrimSpace(text))
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return errdefs.Internalf("decode the answer of the servers: %w", err)
	}
	return nil
}
