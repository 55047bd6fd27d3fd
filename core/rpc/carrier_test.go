// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestMain(m *testing.M) {
	testkit.UseDNS()
	// net/http keeps a connection that its client broke off for half a second.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// fake is the servers' side: it remembers what came and hands out its node.
type fake struct {
	node     *model.Node
	change   *model.NodeChange
	reports  []*model.AllocReport
	schemas  [][]byte
	attached chan rpc.Node
	pushes   chan *rpc.Assignments
}

func (f *fake) Register(_ context.Context, n *model.Node) (rpc.Lease, error) {
	f.node = n
	return rpc.Lease{TTL: time.Minute, Index: 7, Servers: []string{"a:1"}, Missing: []string{"h"}}, nil
}

func (f *fake) Change(_ context.Context, c *model.NodeChange) (rpc.Lease, error) {
	f.change = c
	return rpc.Lease{Version: c.Base + 1}, nil
}

func (f *fake) Beat(_ context.Context, id rpc.Identity) (rpc.Lease, error) {
	return rpc.Lease{}, errdefs.NotFoundf("node %q is not registered", id.NodeID)
}

func (f *fake) Away(_ context.Context, id rpc.Identity) error {
	return errdefs.NotFoundf("node %q is not registered", id.NodeID)
}

func (f *fake) UpdateAllocs(_ context.Context, _ rpc.Identity, reports []*model.AllocReport) (rpc.UpdateAnswer, error) {
	f.reports = reports
	return rpc.UpdateAnswer{Index: 9, Whole: []string{"a"}}, nil
}

func (f *fake) FetchAllocs(_ context.Context, _ rpc.Identity, ids []string) ([]*model.Allocation, error) {
	job := &model.Job{ID: "web", Version: 3, TaskGroups: []*model.TaskGroup{{Name: "g", Tasks: []*model.Task{{
		Name: "t", Config: map[string]any{"command": "sleep", "args": []any{"1"}, "n": int64(4), "b": true},
	}}}}}
	var out []*model.Allocation
	for _, id := range ids {
		out = append(out, &model.Allocation{ID: id, JobID: "web", Job: job, JobVersion: 3})
	}
	return out, nil
}

func (f *fake) PutDriverSchemas(_ context.Context, _ rpc.Identity, bodies [][]byte) error {
	f.schemas = bodies
	return nil
}

func (f *fake) Variables(_ context.Context, id rpc.Identity, q rpc.VariableQuery) (rpc.VariableAnswer, error) {
	return rpc.VariableAnswer{Index: q.Since + 1, Variables: []rpc.Variable{{Path: q.Path, Items: map[string]string{"node": id.NodeID}}}}, nil
}

func (f *fake) Identities(_ context.Context, id rpc.Identity, q rpc.IdentityQuery) (rpc.IdentityAnswer, error) {
	return rpc.IdentityAnswer{Tokens: []rpc.IdentityToken{{Name: q.Names[0], JWT: id.NodeID + q.AllocID + q.Task, TTL: time.Minute}}}, nil
}

func (f *fake) ClaimVolume(_ context.Context, _ rpc.Identity, q rpc.VolumeQuery) (rpc.VolumeGrant, error) {
	return rpc.VolumeGrant{ID: q.Volume, Secrets: model.VolumeSecrets{"k": "v"}}, nil
}

func (f *fake) CheckToken(_ context.Context, _ rpc.Identity, token string) error {
	if token != "good" {
		return errdefs.PermissionDeniedf("%s", token)
	}
	return nil
}

func (f *fake) Services(_ context.Context, id rpc.Identity, q rpc.ServiceQuery) (rpc.ServiceAnswer, error) {
	return rpc.ServiceAnswer{Index: q.Since + 1, Instances: []*model.ServiceRegistration{{ServiceName: q.Name, NodeID: id.NodeID, Port: 80}}, Services: []rpc.ServiceTags{{Name: q.Name, Tags: []string{"t"}}}}, nil
}

func (f *fake) Plugins(_ context.Context, id rpc.Identity) (rpc.PluginAnswer, error) {
	return rpc.PluginAnswer{Index: 4, Confirmed: true, Plugins: []rpc.WantedPlugin{
		{Name: "kept"},
		{Name: "p", Release: &model.PluginRelease{Revision: 3, Digest: "sha256:0", Source: "/p", Config: map[string]any{"node": id.NodeID, "list": []any{"a", int64(1)}}}},
	}}, nil
}

func (f *fake) PluginFile(_ context.Context, _ rpc.Identity, digest string, take func([]byte) error) error {
	if digest == "none" {
		return errdefs.NotFoundf("no such file")
	}
	for range 3 {
		if err := take(bytes.Repeat([]byte(digest), 100_000)); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) AllocData(_ context.Context, id rpc.Identity, allocID string, take func(*rpc.DataPiece) error) error {
	if allocID == "lost" {
		return errdefs.NotFoundf("its node is lost")
	}
	if err := take(&rpc.DataPiece{Waits: "for " + id.NodeID}); err != nil {
		return err
	}
	for range 3 {
		if err := take(&rpc.DataPiece{Data: bytes.Repeat([]byte(allocID), 100_000)}); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) Attach(ctx context.Context, id rpc.Identity, n rpc.Node, push func(*rpc.Assignments) error) error {
	if id.SecretID != "s" {
		return errdefs.PermissionDeniedf("wrong secret")
	}
	f.attached <- n
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case a := <-f.pushes:
			if err := push(a); err != nil {
				return err
			}
		}
	}
}

// node is the node's side: each method is one behaviour.
type node struct{ canceled chan struct{} }

func (n *node) Call(ctx context.Context, call rpc.Call, in <-chan []byte, send func([]byte) error) error {
	switch call.Method {
	case "echo":
		for data := range in {
			if err := send(append([]byte("echo "), data...)); err != nil {
				return err
			}
		}
		return nil
	case "missing":
		return errdefs.NotFoundf("no such file")
	case "many":
		for i := range 1000 {
			if err := send([]byte(fmt.Sprint(i))); err != nil {
				return err
			}
		}
		return nil
	case "forever":
		if err := send([]byte("started")); err != nil {
			return err
		}
		<-ctx.Done()
		close(n.canceled)
		return ctx.Err()
	}
	return send([]byte(`{"Name":"f","Size":4}`))
}

func connect(t *testing.T) (*fake, *rpc.Client, *rpc.Server) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{attached: make(chan rpc.Node, 1), pushes: make(chan *rpc.Assignments, 1)}
	server := rpc.NewServer(f, nil, hclog.NewNullLogger())
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	client, err := rpc.Dial(l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return f, client, server
}

func attach(t *testing.T, f *fake, c *rpc.Client, n rpc.Node) (remote rpc.Node, pushed chan *rpc.Assignments, ended chan error) {
	t.Helper()
	pushed, ended = make(chan *rpc.Assignments, 1), make(chan error, 1)
	go func() {
		ended <- c.Attach(t.Context(), rpc.Identity{NodeID: "n", SecretID: "s"}, n, func(a *rpc.Assignments) error {
			pushed <- a
			return nil
		})
	}()
	select {
	case remote = <-f.attached:
	case err := <-ended:
		t.Fatalf("the session ended at once: %v", err)
	}
	return remote, pushed, ended
}

func TestWhatANodeOwnsArrivesUnchanged(t *testing.T) {
	f, c, _ := connect(t)
	sent := &model.Node{ID: "n", SecretID: "s", Attributes: map[string]string{"os": "linux"}, Drivers: map[string]*model.DriverInfo{
		"raw_exec": {Detected: true, UpdateTime: time.Unix(5, 6).UTC()},
	}}
	lease, err := c.Register(t.Context(), sent)
	if err != nil || lease.TTL != time.Minute || lease.Index != 7 || len(lease.Servers) != 1 {
		t.Fatalf("lease %+v, %v", lease, err)
	}
	if !reflect.DeepEqual(f.node, sent) {
		t.Fatalf("registered %+v, want %+v", f.node, sent)
	}
	now := sent.Copy()
	now.Attributes, now.Number = map[string]string{"cpu": "8"}, 2
	change := model.ChangeOf(sent, now)
	change.Base = 1 << 63
	if lease, err := c.Change(t.Context(), change); err != nil || lease.Version != 1<<63+1 {
		t.Fatalf("lease %+v, %v", lease, err)
	}
	if got := f.change.Apply(sent); got.Number != 2 || !reflect.DeepEqual(got.Registration(), now.Registration()) {
		t.Fatalf("changed to %+v, want %+v", got, now)
	}
	at, none := int64(9), int64(0)
	update := &model.AllocReport{
		ID: "a", ClientStatus: "running", Health: &model.HealthReport{DeploymentID: "d"},
		Tasks: map[string]*model.TaskReport{"t": {State: "running", StartedAt: &at, FinishedAt: &none, Before: 3, Events: []*model.TaskEvent{{Type: "x", Time: 5}}}},
	}
	answer, err := c.UpdateAllocs(t.Context(), rpc.Identity{}, []*model.AllocReport{update})
	if err != nil || answer.Index != 9 || len(answer.Whole) != 1 || answer.Whole[0] != "a" {
		t.Fatalf("answer %+v, %v", answer, err)
	}
	if len(f.reports) != 1 || !reflect.DeepEqual(f.reports[0], update) {
		t.Fatalf("updated %+v, want %+v", f.reports[0].Tasks["t"], update.Tasks["t"])
	}
}

func TestFetchedAllocsShareOneJob(t *testing.T) {
	f, c, _ := connect(t)
	got, err := c.FetchAllocs(t.Context(), rpc.Identity{}, []string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	want, _ := f.FetchAllocs(t.Context(), rpc.Identity{}, []string{"a", "b"})
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("fetched %+v, want %+v", got[0].Job.TaskGroups[0].Tasks[0], want[0].Job.TaskGroups[0].Tasks[0])
	}
	if got[0].Job != got[1].Job {
		t.Fatal("each alloc got a copy of the job")
	}
}

func TestErrorsKeepTheirClassOverTheWire(t *testing.T) {
	f, c, _ := connect(t)
	if _, err := c.Beat(t.Context(), rpc.Identity{NodeID: "n"}); !errdefs.IsNotFound(err) {
		t.Errorf("beat: %v", err)
	}
	if err := c.Away(t.Context(), rpc.Identity{NodeID: "n"}); !errdefs.IsNotFound(err) || !strings.Contains(err.Error(), `"n"`) {
		t.Errorf("away: %v", err)
	}
	if err := c.Attach(t.Context(), rpc.Identity{}, &node{}, nil); !errdefs.IsPermissionDenied(err) {
		t.Errorf("attach: %v", err)
	}
	remote, _, _ := attach(t, f, c, &node{})
	if err := remote.Call(t.Context(), rpc.Call{Method: "missing"}, nil, nil); !errdefs.IsNotFound(err) || err.Error() != "no such file" {
		t.Errorf("call: %v", err)
	}
}

func TestServersPushAndCallOverTheSession(t *testing.T) {
	f, c, _ := connect(t)
	remote, pushed, _ := attach(t, f, c, &node{})
	want := &rpc.Assignments{Index: 4, Full: true, Set: []rpc.Assignment{{AllocID: "a", AllocModifyIndex: 3, DesiredStatus: "run"}}}
	f.pushes <- want
	if got := <-pushed; !reflect.DeepEqual(got, want) {
		t.Fatalf("pushed %+v", got)
	}

	info, err := rpc.Ask[model.FileInfo](t.Context(), remote, rpc.MethodStatFile, &rpc.FileRequest{AllocID: "a", Path: "f"})
	if err != nil || info.Name != "f" || info.Size != 4 {
		t.Fatalf("stat %+v, %v", info, err)
	}

	next := 0
	err = remote.Call(t.Context(), rpc.Call{Method: "many"}, nil, func(b []byte) error {
		if string(b) != fmt.Sprint(next) {
			t.Errorf("piece %d is %s", next, b)
		}
		next++
		return nil
	})
	if err != nil || next != 1000 {
		t.Fatalf("%d pieces, %v", next, err)
	}

	in, got := make(chan []byte), make(chan string, 2)
	go func() {
		in <- []byte("one")
		in <- []byte("two")
		close(in)
	}()
	if err := remote.Call(t.Context(), rpc.Call{Method: "echo"}, in, func(b []byte) error {
		got <- string(b)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if a, b := <-got, <-got; a != "echo one" || b != "echo two" {
		t.Fatalf("echoed %q, %q", a, b)
	}
}

func TestACallEndsWithItsCallerAndWithItsReader(t *testing.T) {
	f, c, _ := connect(t)
	n := &node{canceled: make(chan struct{})}
	remote, _, _ := attach(t, f, c, n)
	ctx, cancel := context.WithCancel(t.Context())
	err := remote.Call(ctx, rpc.Call{Method: "forever"}, nil, func([]byte) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a canceled call gave %v", err)
	}
	<-n.canceled // the node is told

	full := errors.New("reader is full")
	if err := remote.Call(t.Context(), rpc.Call{Method: "many"}, nil, func([]byte) error { return full }); !errors.Is(err, full) {
		t.Fatalf("a reader's error came back as %v", err)
	}
}

func TestALostSessionEndsItsCallsAsUnavailable(t *testing.T) {
	f, c, server := connect(t)
	n := &node{canceled: make(chan struct{})}
	remote, _, ended := attach(t, f, c, n)
	err := remote.Call(t.Context(), rpc.Call{Method: "forever"}, nil, func([]byte) error {
		go server.Close()
		return nil
	})
	if !errdefs.IsUnavailable(err) {
		t.Fatalf("the call gave %v", err)
	}
	if err := <-ended; !errdefs.IsUnavailable(err) && !errdefs.IsCanceled(err) {
		t.Fatalf("the session ended with %v", err)
	}
}

func TestVariablesCrossTheCarrier(t *testing.T) {
	_, c, _ := connect(t)
	got, err := c.Variables(t.Context(), rpc.Identity{NodeID: "n"}, rpc.VariableQuery{Path: "nomad/jobs/web", Since: 6})
	if err != nil || got.Index != 7 || len(got.Variables) != 1 || got.Variables[0].Path != "nomad/jobs/web" || got.Variables[0].Items["node"] != "n" {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestServicesCrossTheCarrier(t *testing.T) {
	_, c, _ := connect(t)
	got, err := c.Services(t.Context(), rpc.Identity{NodeID: "n"}, rpc.ServiceQuery{Name: "web", Since: 6})
	want := rpc.ServiceAnswer{Index: 7, Instances: []*model.ServiceRegistration{{ServiceName: "web", NodeID: "n", Port: 80}}, Services: []rpc.ServiceTags{{Name: "web", Tags: []string{"t"}}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestSchemasArriveAsTheyWereSent(t *testing.T) {
	f, c, _ := connect(t)
	lease, err := c.Register(t.Context(), &model.Node{ID: "n"})
	if err != nil || !reflect.DeepEqual(lease.Missing, []string{"h"}) {
		t.Fatalf("lease %+v, %v", lease, err)
	}
	sent := [][]byte{[]byte(`{"driver":"a"}`), {0, 0xff}}
	if err := c.PutDriverSchemas(t.Context(), rpc.Identity{NodeID: "n"}, sent); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(f.schemas, sent) {
		t.Fatalf("got %q, want %q", f.schemas, sent)
	}
}

func TestPluginsAndTheirFilesCrossTheCarrier(t *testing.T) {
	f, c, _ := connect(t)
	want, _ := f.Plugins(t.Context(), rpc.Identity{NodeID: "n"})
	if got, err := c.Plugins(t.Context(), rpc.Identity{NodeID: "n"}); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
	var file bytes.Buffer
	err := c.PluginFile(t.Context(), rpc.Identity{}, "abc", func(b []byte) error { file.Write(b); return nil })
	if err != nil || file.String() != strings.Repeat("abc", 300_000) {
		t.Fatalf("%d bytes, %v", file.Len(), err)
	}
	if err := c.PluginFile(t.Context(), rpc.Identity{}, "none", nil); !errdefs.IsNotFound(err) {
		t.Errorf("a missing file: %v", err)
	}
	full := errors.New("disk full")
	if err := c.PluginFile(t.Context(), rpc.Identity{}, "abc", func([]byte) error { return full }); !errors.Is(err, full) {
		t.Errorf("a reader's error came back as %v", err)
	}
}

func TestTheDataOfAnAllocCrossesTheCarrier(t *testing.T) {
	_, c, _ := connect(t)
	var data bytes.Buffer
	waits := ""
	err := c.AllocData(t.Context(), rpc.Identity{NodeID: "n"}, "abc", func(p *rpc.DataPiece) error {
		waits += p.Waits
		data.Write(p.Data)
		return nil
	})
	if err != nil || waits != "for n" || data.String() != strings.Repeat("abc", 300_000) {
		t.Fatalf("%q, %d bytes, %v", waits, data.Len(), err)
	}
	if err := c.AllocData(t.Context(), rpc.Identity{}, "lost", nil); !errdefs.IsNotFound(err) {
		t.Errorf("lost data: %v", err)
	}
	full := errors.New("disk full")
	if err := c.AllocData(t.Context(), rpc.Identity{}, "abc", func(*rpc.DataPiece) error { return full }); !errors.Is(err, full) {
		t.Errorf("a reader's error came back as %v", err)
	}
}
