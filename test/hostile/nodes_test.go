// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package hostile_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/server"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

// attack is how long each test sends messages.
const attack = 3 * time.Second

// journal is a log that is searched for panics.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) check(t *testing.T) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if at := strings.Index(j.text.String(), "panic"); at >= 0 {
		text := j.text.String()[max(0, at-500):]
		t.Errorf("something panicked: %.4000s", text)
	}
}

// start starts a server and searches its log for panics at the end of the test.
func start(t *testing.T) *testkit.Cluster {
	t.Helper()
	j := &journal{}
	c := testkit.StartWith(t, server.Config{Logger: hclog.New(&hclog.LoggerOptions{Output: j, Level: hclog.Warn})})
	t.Cleanup(func() { j.check(t) })
	return c
}

// wants returns jobs that use everything that a node may report about itself.
func wants(id, kind string) map[string]any {
	job := testkit.Job(id, 1)
	job["Type"], job["NodePool"] = kind, "all"
	group := job["TaskGroups"].([]any)[0].(map[string]any)
	delete(group, "Update")
	if kind == "service" || kind == "batch" {
		group["Count"] = 5
		job["Affinities"] = []any{map[string]any{"LTarget": "${meta.a}", "RTarget": "a", "Operand": "=", "Weight": 50}}
		job["Spreads"] = []any{map[string]any{"Attribute": "${node.datacenter}", "Weight": 50}}
	}
	job["Constraints"] = []any{
		map[string]any{"LTarget": "${attr.a}", "RTarget": "b", "Operand": "!="},
		map[string]any{"Operand": "distinct_hosts", "RTarget": "true"},
	}
	group["Networks"] = []any{map[string]any{"Mode": "host", "DynamicPorts": []any{map[string]any{"Label": "p"}}, "ReservedPorts": []any{map[string]any{"Label": "q", "Value": 22}}}}
	group["Volumes"] = map[string]any{"v": map[string]any{"Name": "v", "Type": "host", "Source": "a"}}
	task := group["Tasks"].([]any)[0].(map[string]any)
	task["Resources"] = map[string]any{"Cores": 1, "MemoryMB": 10, "Devices": []any{map[string]any{"Name": "a", "Count": 1, "Constraints": []any{map[string]any{"LTarget": "${device.attr.a}", "RTarget": "1", "Operand": ">"}}}}}
	return job
}

// calls makes the calls of nodes, with arguments of the right types.
type calls struct {
	*values
	servers rpc.Servers
	good    rpc.Identity
}

// one makes a random call and returns its name and its error.
func (c *calls) one(ctx context.Context) (string, error) {
	methods := reflect.TypeFor[rpc.Servers]()
	m := methods.Method(c.IntN(methods.NumMethod()))
	f := reflect.ValueOf(c.servers).MethodByName(m.Name)
	args := []reflect.Value{reflect.ValueOf(ctx)}
	for i := 1; i < f.Type().NumIn(); i++ {
		args = append(args, c.argument(f.Type().In(i)))
	}
	out := f.Call(args)
	err, _ := out[len(out)-1].Interface().(error)
	return m.Name, err
}

func (c *calls) argument(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch t {
	case reflect.TypeFor[rpc.Node]():
		return v
	case reflect.TypeFor[rpc.Identity]():
		if c.IntN(4) > 0 {
			return reflect.ValueOf(c.good)
		}
	case reflect.TypeFor[*model.Node]():
		return reflect.ValueOf(c.node())
	}
	if t.Kind() == reflect.Func {
		return reflect.MakeFunc(t, func([]reflect.Value) []reflect.Value { return []reflect.Value{reflect.Zero(t.Out(0))} })
	}
	c.of(v, 6)
	return v
}

// node returns a registration. Most of them pass validation as far as possible.
func (c *calls) node() *model.Node {
	n := &model.Node{}
	c.tame = c.IntN(3) > 0
	defer func() { c.tame = false }()
	c.of(reflect.ValueOf(n).Elem(), 6)
	if c.IntN(10) > 0 {
		n.ID, n.SecretID, n.NodePool, n.Region = uuid.NewString(), "s", "default", ""
		n.Name, n.Datacenter, n.NodeClass, n.HTTPAddr, n.CgroupParent, n.Instance, n.IdentitySigningKeyID = "n", "dc1", "c", "", "", "", ""
	}
	if c.IntN(2) == 0 { // the identity is valid, so that jobs use the rest
		n.NodeResources, n.ReservedResources = &model.NodeResources{}, nil
		n.NodeResources.NodeNetworks = []*model.NodeNetworkResource{{Addresses: []model.NodeNetworkAddress{{Alias: "default", Address: c.text()}}}}
		c.of(reflect.ValueOf(&n.NodeResources.Networks).Elem(), 4)
		c.of(reflect.ValueOf(&n.NodeResources.Devices).Elem(), 6)
		n.NodeResources.Cpu = model.NodeCpuResources{CpuShares: 1 << 40, TotalCpuCores: 4, ReservableCpuCores: []uint16{0, 1, 2, 65535}}
		n.NodeResources.Memory.MemoryMB, n.NodeResources.Disk.DiskMB = 1<<40, 1<<40
		n.Drivers = map[string]*model.DriverInfo{"raw_exec": {Detected: true, Healthy: true}}
		n.HostVolumes = map[string]*model.HostVolumeConfig{"a": {}}
		n.NodeMaxAllocs = 0
	}
	return n
}

func TestHostileCallsOfNodesChangeNothingForOthers(t *testing.T) {
	c := start(t)
	for _, kind := range []string{"service", "batch", "system", "sysbatch"} {
		c.Must("PUT", "/v1/jobs", map[string]any{"Job": wants("wants-"+kind, kind)}, nil)
	}
	good := c.Node(nil)
	c.Run("before", 3)
	id := uuid.NewString()
	if _, err := c.Server.Sessions().Register(t.Context(), &model.Node{ID: id, SecretID: "s", Name: "evil"}); err != nil {
		t.Fatal(err)
	}
	known := []string{id, good.ID, "before", "default", "g", "t", "a", "v"}
	for _, a := range c.View().AllocsByJob("default", "before") {
		known = append(known, a.ID)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	h := &calls{values: &values{Rand: rand.New(rand.NewPCG(seed, 0)), known: known}, servers: c.Server.Sessions(), good: rpc.Identity{NodeID: id, SecretID: "s"}}
	told, made, taken := map[string]bool{}, map[string]int{}, map[string]int{}
	begun := time.Now()
	for time.Since(begun) < attack || taken["Register"] == 0 && time.Since(begun) < 20*attack { // a loaded machine may not finish one in time
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		name, err := h.one(ctx)
		cancel()
		made[name]++
		switch {
		case err == nil:
			taken[name]++
		case len(err.Error()) > 2000:
			t.Errorf("%s answers with %d bytes", name, len(err.Error()))
		case errdefs.IsInternal(err) && !told[err.Error()]:
			told[err.Error()] = true
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Logf("made %v, of which were taken %v", made, taken)
	if taken["Register"] == 0 {
		t.Error("no registration was taken")
	}
	c.Run("after", 3)
	for _, path := range []string{"/v1/nodes?resources=true", "/v1/node/" + good.ID, "/v1/jobs", "/v1/allocations?resources=true", "/v1/evaluations", "/v1/node/pools"} {
		if r, body := c.Ask("GET", path, nil); r.StatusCode != 200 {
			t.Errorf("%s: %d %.200s", path, r.StatusCode, body)
		}
	}
}
