// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// simulatedNode returns a node that runs tasks of raw_exec.
func simulatedNode(i int, id rpc.Identity) *model.Node {
	name := fmt.Sprintf("sim-%d", i)
	return &model.Node{
		ID: id.NodeID, SecretID: id.SecretID, Instance: id.Instance, Session: id.Session, Name: name, Datacenter: "sim", NodePool: "default",
		Attributes: map[string]string{"kernel.name": "linux", "driver.raw_exec": "1", "unique.hostname": name},
		NodeResources: &model.NodeResources{
			Cpu: model.NodeCpuResources{CpuShares: 4000, TotalCpuCores: 4}, Memory: model.NodeMemoryResources{MemoryMB: 8192},
			Disk: model.NodeDiskResources{DiskMB: 100 << 10}, MinDynamicPort: 20000, MaxDynamicPort: 32000,
		},
		ReservedResources: &model.NodeReservedResources{}, Drivers: map[string]*model.DriverInfo{"raw_exec": {Detected: true, Healthy: true}},
	}
}

// registered registers a node, at the time that the server asks for.
func registered(ctx context.Context, c *rpc.Client, node *model.Node) (rpc.Lease, error) {
	for {
		lease, err := c.Register(ctx, node)
		if err == nil || ctx.Err() != nil || !errdefs.IsResourceExhausted(err) && !errdefs.IsUnavailable(err) {
			return lease, err
		}
		time.Sleep(max(errdefs.RetryAfter(err), 100*time.Millisecond))
	}
}

// keepBeating sends heartbeats when they are due, until ctx ends.
func keepBeating(ctx context.Context, b *testing.B, c *rpc.Client, id rpc.Identity, lease rpc.Lease) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lease.BeatAfter()):
		}
		if next, err := c.Beat(ctx, id); err == nil {
			lease = next
		} else if ctx.Err() == nil {
			b.Error(err)
		}
	}
}

// awaitReady waits until the agent has as many nodes as given and all of them are ready.
func (a *agent) awaitReady(b *testing.B, nodes int) {
	b.Helper()
	a.waitLong(b, fmt.Sprintf("%d ready nodes", nodes), func() bool {
		var all []struct{ Status string }
		return a.get("/v1/nodes", &all) == nil && len(all) == nodes &&
			!slices.ContainsFunc(all, func(n struct{ Status string }) bool { return n.Status != model.NodeStatusReady })
	})
}
