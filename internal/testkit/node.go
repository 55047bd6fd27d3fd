// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package testkit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Node holds a real session with a server but runs nothing: it reports assigned
// allocs as running, and allocs that it must stop as ended.
type Node struct {
	ID string
	// OnCall answers operators' requests to the node; nil rejects them.
	OnCall func(ctx context.Context, call rpc.Call, in <-chan []byte, send func([]byte) error) error

	t       *testing.T
	servers *rpc.Client
	secret  string
	stop    context.CancelFunc
	ended   chan struct{}
	closed  sync.Once

	mu   sync.Mutex
	told map[string]string // by alloc id: the client status that was last reported
	hold bool
}

// Node adds a ready node with 4,000 MHz, 8 GiB and the drivers that tests use.
func (c *Cluster) Node(onCall func(ctx context.Context, call rpc.Call, in <-chan []byte, send func([]byte) error) error) *Node {
	c.t.Helper()
	return newNode(c.t, c.sessions, c.Endpoint, onCall)
}

// Node adds a ready node that is attached to this server.
func (m *Member) Node(onCall func(ctx context.Context, call rpc.Call, in <-chan []byte, send func([]byte) error) error) *Node {
	m.t.Helper()
	return newNode(m.t, m.Address, m.Endpoint(), onCall)
}

// NodeOf adds a ready node that is attached to the server at an address.
func NodeOf(t *testing.T, address string) *Node {
	t.Helper()
	return newNode(t, address, nil, nil)
}

// newNode connects a node to the server at address. If at is not nil, it waits until the
// node is ready in at's state and can be called there.
func newNode(t *testing.T, address string, at *endpoint.Endpoint, onCall func(ctx context.Context, call rpc.Call, in <-chan []byte, send func([]byte) error) error) *Node {
	t.Helper()
	client, err := rpc.Dial(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{
		ID: uuid.NewString(), OnCall: onCall, t: t, servers: client, secret: uuid.NewString(),
		ended: make(chan struct{}), told: map[string]string{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	if _, err := n.servers.Register(ctx, n.describe()); err != nil {
		cancel()
		t.Fatalf("register a node: %v", err)
	}
	go func() { defer close(n.ended); n.run(ctx) }()
	t.Cleanup(n.Close)
	if at == nil {
		return n
	}
	Eventually(t, "the node is ready", func() bool {
		row := at.View().NodeByID(n.ID)
		_, unreachable := at.Nodes(n.ID)
		return row != nil && row.Status == model.NodeStatusReady && unreachable == nil
	})
	return n
}

// Close ends the node's session.
func (n *Node) Close() {
	n.closed.Do(func() {
		n.stop()
		<-n.ended
		if err := n.servers.Close(); err != nil {
			n.t.Errorf("close a node's connection: %v", err)
		}
	})
}

// Hold makes the node leave new allocs pending.
func (n *Node) Hold() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hold = true
}

func (n *Node) describe() *model.Node {
	out := &model.Node{
		ID: n.ID, SecretID: n.secret, Name: "node-" + n.ID[:4], Datacenter: "dc1", NodePool: model.NodePoolDefault,
		Status: model.NodeStatusInit, SchedulingEligibility: model.NodeSchedulingEligible,
		Attributes: map[string]string{"kernel.name": "linux", "arch": "amd64", "plugins.host_volume.mkdir.version": "0.0.1"}, Meta: map[string]string{}, Links: map[string]string{},
		NodeResources: &model.NodeResources{
			Cpu: model.NodeCpuResources{CpuShares: 4000, TotalCpuCores: 4}, Memory: model.NodeMemoryResources{MemoryMB: 8192},
			Disk: model.NodeDiskResources{DiskMB: 100 << 10}, MinDynamicPort: 20000, MaxDynamicPort: 32000,
		},
		ReservedResources: &model.NodeReservedResources{}, Drivers: map[string]*model.DriverInfo{},
	}
	for _, name := range []string{"raw_exec", "exec"} {
		out.Drivers[name] = &model.DriverInfo{Detected: true, Healthy: true}
		out.Attributes["driver."+name] = "1"
	}
	return out
}

func (n *Node) identity() rpc.Identity { return rpc.Identity{NodeID: n.ID, SecretID: n.secret} }

// run keeps a session open until ctx ends.
func (n *Node) run(ctx context.Context) {
	for ctx.Err() == nil {
		work := make(chan *rpc.Assignments, 64)
		session, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() { n.beat(session) })
		wg.Go(func() { n.act(session, work) })
		err := n.servers.Attach(session, n.identity(), caller{n}, func(a *rpc.Assignments) error {
			select {
			case work <- a:
				return nil
			case <-session.Done():
				return session.Err()
			}
		})
		cancel()
		wg.Wait()
		if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
			if _, err := n.servers.Register(ctx, n.describe()); err != nil {
				wait(ctx, 10*time.Millisecond)
			}
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (n *Node) beat(ctx context.Context) {
	for ctx.Err() == nil {
		wait(ctx, 300*time.Millisecond)
		if _, err := n.servers.Beat(ctx, n.identity()); errdefs.IsNotFound(err) {
			return // the session ends too, and the node registers again
		}
	}
}

// act reports a status for everything that the servers push.
func (n *Node) act(ctx context.Context, work <-chan *rpc.Assignments) {
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-work:
			n.report(ctx, a)
		}
	}
}

func (n *Node) report(ctx context.Context, a *rpc.Assignments) {
	var ids []string
	for _, x := range a.Set {
		ids = append(ids, x.AllocID)
	}
	allocs, err := n.servers.FetchAllocs(ctx, n.identity(), ids)
	if err != nil {
		return // the next push repeats it
	}
	var batch []*model.AllocReport
	for _, alloc := range allocs {
		if update := n.statusOf(alloc); update != nil {
			batch = append(batch, update.ReportSince(nil))
		}
	}
	for len(batch) > 0 && ctx.Err() == nil {
		if _, err := n.servers.UpdateAllocs(ctx, n.identity(), batch); err == nil {
			return
		}
		wait(ctx, 10*time.Millisecond) // the node is not ready yet, or the servers are busy
	}
}

// statusOf returns the status to report for an alloc, or nil if it has not changed.
func (n *Node) statusOf(a *model.Allocation) *model.Allocation {
	n.mu.Lock()
	defer n.mu.Unlock()
	status, state := model.AllocClientStatusRunning, model.TaskStateRunning
	if a.DesiredStatus != model.AllocDesiredStatusRun {
		status, state = model.AllocClientStatusComplete, model.TaskStateDead
	} else if n.hold {
		return nil
	}
	if n.told[a.ID] == status {
		return nil
	}
	n.told[a.ID] = status
	out := &model.Allocation{ID: a.ID, NodeID: n.ID, DeploymentID: a.DeploymentID, ClientStatus: status, TaskStates: map[string]*model.TaskState{}}
	if tg := a.Job.LookupTaskGroup(a.TaskGroup); tg != nil {
		for _, task := range tg.Tasks {
			out.TaskStates[task.Name] = &model.TaskState{State: state}
		}
	}
	if healthy := true; a.DeploymentID != "" && status == model.AllocClientStatusRunning {
		out.DeploymentStatus = &model.AllocDeploymentStatus{Healthy: &healthy}
	}
	return out
}

// caller implements rpc.Node for a Node.
type caller struct{ n *Node }

// Call answers one request of an operator.
func (c caller) Call(ctx context.Context, call rpc.Call, in <-chan []byte, send func([]byte) error) error {
	if c.n.OnCall == nil {
		return errdefs.Unimplementedf("this node answers no %s", call.Method)
	}
	return c.n.OnCall(ctx, call, in, send)
}

// Job returns a service job with count sleeps.
func Job(id string, count int) map[string]any {
	return map[string]any{
		"ID": id, "Name": id, "Type": "service", "Datacenters": []string{"*"}, "TaskGroups": []any{map[string]any{
			"Name": "g", "Count": count, "EphemeralDisk": map[string]any{"SizeMB": 10}, "Update": map[string]any{"MaxParallel": 0},
			"Tasks": []any{map[string]any{
				"Name": "t", "Driver": "raw_exec", "Config": map[string]any{"command": "/bin/sleep", "args": []string{"3600"}},
				"Resources": map[string]any{"CPU": 1, "MemoryMB": 10}, "LogConfig": map[string]any{"MaxFiles": 1, "MaxFileSizeMB": 1},
			}},
		}},
	}
}

// Run registers a job and waits until all its allocs run.
func (c *Cluster) Run(id string, count int) {
	c.t.Helper()
	c.Must("PUT", "/v1/jobs", map[string]any{"Job": Job(id, count)}, nil)
	c.Eventually(fmt.Sprintf("%d allocs of %s run", count, id), func() bool {
		running := 0
		for _, a := range c.View().AllocsByJob(model.DefaultNamespace, id) {
			if a.ClientStatus == model.AllocClientStatusRunning {
				running++
			}
		}
		return running == count
	})
}
