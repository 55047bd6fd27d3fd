// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package hostile_test

import (
	"context"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/dispatch"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/server"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

// peerCalls are the calls between servers, with the fields of their messages: see core/peer.
var peerCalls = map[string]any{
	"Report": dispatch.Report{}, "Confirm": struct{}{}, "Holder": struct{ ID string }{},
	"Register": struct {
		Server string
		Node   *model.Node
	}{},
	"Change": struct {
		Server string
		Change *model.NodeChange
	}{},
	"Ready": struct {
		Server string
		ID     rpc.Identity
	}{},
	"Away": struct {
		Server string
		ID     rpc.Identity
	}{},
	"UpdateAllocs": struct {
		ID      rpc.Identity
		Reports []*model.AllocReport
	}{},
	"PutDriverSchemas": struct {
		ID     rpc.Identity
		Bodies [][]byte
	}{},
	"AcceptKey": model.ServerKey{},
	"PluginFilePart": struct {
		Digest string
		Offset int64
	}{},
}

// servers starts three servers and searches their logs for panics at the end of the test.
func servers(t *testing.T) *testkit.Servers {
	t.Helper()
	j := &journal{}
	s := testkit.NewServers(t, 3, func(cfg *server.Config) {
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: j, Level: hclog.Warn})
	})
	t.Cleanup(func() { j.check(t) })
	return s
}

// stranger registers a node with a server, and returns its identity.
func stranger(t *testing.T, at rpc.Servers) (rpc.Identity, rpc.Lease) {
	t.Helper()
	id := rpc.Identity{NodeID: uuid.NewString(), SecretID: "s"}
	lease, err := at.Register(t.Context(), &model.Node{ID: id.NodeID, SecretID: id.SecretID, Name: "evil", Attributes: map[string]string{"a": "b"},
		NodeResources: &model.NodeResources{}})
	if err != nil {
		t.Fatal(err)
	}
	return id, lease
}

// TestHostileCallsOfServersChangeNothingForOthers attacks the leader and a follower with
// what servers say to each other, and a follower with what nodes say.
func TestHostileCallsOfServersChangeNothingForOthers(t *testing.T) {
	s := servers(t)
	leader, follower := s.Leader(), s.Follower()
	good := follower.Node(nil)
	id, _ := stranger(t, follower.Sessions())
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	known := []string{id.NodeID, good.ID, leader.ID(), follower.ID(), "default", "a"}
	h := &calls{values: &values{Rand: rand.New(rand.NewPCG(seed, 0)), known: known}, servers: follower.Sessions(), good: id}
	var to []*rpc.Client
	for _, m := range []*testkit.Member{leader, follower} {
		c, err := rpc.DialPeer(m.Address, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		to = append(to, c)
	}
	made, taken := map[string]int{}, map[string]int{}
	judge := func(name string, err error) {
		made[name]++
		switch {
		case err == nil:
			taken[name]++
		case len(err.Error()) > 2000:
			t.Errorf("%s answers with %d bytes", name, len(err.Error()))
		case errdefs.IsInternal(err):
			t.Errorf("%s: %v", name, err)
		}
	}
	for begun := time.Now(); time.Since(begun) < 2*attack || taken["Report"] == 0 && time.Since(begun) < 20*attack; {
		for name, like := range peerCalls {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := rpc.AskPeer[any](ctx, to[h.IntN(2)], name, h.message(like))
			cancel()
			judge(name, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		name, err := h.one(ctx)
		cancel()
		judge(name+" of a node", err)
	}
	t.Logf("made %v, of which were taken %v", made, taken)
	s.Leader()
	if view := s.Leader().Endpoint().Store.View(); view.NodeByID(good.ID).Status != model.NodeStatusReady {
		t.Errorf("the node of another is %s", view.NodeByID(good.ID).Status)
	}
}

// message returns a hostile message of the type of like.
func (c *calls) message(like any) any {
	v := reflect.New(reflect.TypeOf(like))
	c.of(v.Elem(), 6)
	for i := range v.Elem().NumField() {
		switch f := v.Elem().Field(i); f.Interface().(type) {
		case rpc.Identity, *model.Node:
			f.Set(c.argument(f.Type()))
		}
	}
	return v.Interface()
}

// TestHostileChangesOfRegistrationsChangeNothingForOthers sends changes of the registration
// that the servers have, so that they are applied to it.
func TestHostileChangesOfRegistrationsChangeNothingForOthers(t *testing.T) {
	c := start(t)
	good := c.Node(nil)
	c.Run("before", 2)
	id, lease := stranger(t, c.Server.Sessions())
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	h := &calls{values: &values{Rand: rand.New(rand.NewPCG(seed, 0)), known: []string{id.NodeID, good.ID, "default", "a", "Attributes", "NodeResources", "Devices", "Events", "Status"}}}
	fields := reflect.TypeFor[model.Node]()
	taken, refused := 0, 0
	for begun := time.Now(); time.Since(begun) < attack || taken < 10 && time.Since(begun) < 20*attack; {
		change := &model.NodeChange{Base: lease.Version, Node: h.node()}
		change.Node.ID, change.Node.SecretID, change.Node.Region, change.Node.ClusterID, change.Node.Token = id.NodeID, id.SecretID, "", "", ""
		change.Node.Instance, change.Node.Session, change.Node.Number = "", 0, 0
		for range h.IntN(5) {
			change.Fields = append(change.Fields, fields.Field(h.IntN(fields.NumField())).Name)
		}
		h.of(reflect.ValueOf(&change.Resources).Elem(), 3)
		h.of(reflect.ValueOf(&change.Gone).Elem(), 3)
		next, err := c.Server.Sessions().Change(t.Context(), change)
		switch {
		case err == nil:
			taken, lease = taken+1, next
		case errdefs.IsAborted(err):
			t.Fatalf("after %d changes: %v", taken, err)
		case errdefs.IsInternal(err), len(err.Error()) > 2000:
			t.Fatalf("%.3000v", err)
		default:
			refused++
		}
	}
	t.Logf("%d changes taken, %d refused", taken, refused)
	if _, err := c.Server.Sessions().Register(t.Context(), &model.Node{ID: id.NodeID, SecretID: id.SecretID, Name: "evil"}); err != nil { // the next job shall not wait for it
		t.Error(err)
	}
	c.Run("after", 2)
	if r, body := c.Ask("GET", "/v1/node/"+good.ID, nil); r.StatusCode != 200 {
		t.Errorf("%d %.200s", r.StatusCode, body)
	}
}
