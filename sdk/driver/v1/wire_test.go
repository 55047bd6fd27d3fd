// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/leak"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/schema"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// fill sets every field that v has to a value of its own, so that a field which
// the wire forgets shows.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(int64(1_700_000_000+*n), 5).UTC()))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString(fmt.Sprintf("value-%d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(uint64(*n % 200))
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	default:
		panic(v.Kind().String())
	}
}

func filled[T any]() T {
	var out T
	n := 0
	fill(reflect.ValueOf(&out).Elem(), &n)
	return out
}

// echo is a driver that answers with filled values and keeps what it got.
type echo struct {
	driver.Driver
	info driver.Info

	mu  sync.Mutex
	got []any
}

func (e *echo) keep(v ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.got = v
}

func (e *echo) last() []any {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got
}

func (e *echo) Info() driver.Info { return e.info }
func (e *echo) SetConfig(_ context.Context, c []byte) error {
	e.keep(string(c))
	return nil
}
func (e *echo) StartTask(_ context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	e.keep(*c)
	h, n := filled[driver.Handle](), filled[driver.NetworkOverride]()
	return &h, &n, nil
}
func (e *echo) ListTasks(context.Context) ([]*driver.Handle, error) {
	h := filled[driver.Handle]()
	return []*driver.Handle{&h}, nil
}

func (e *echo) UpdateTask(_ context.Context, id string, r driver.Resources) error {
	e.keep(id, r)
	return errdefs.FailedPreconditionf("it uses more")
}

func (e *echo) PauseTask(_ context.Context, id string) error {
	e.keep("pause", id)
	return errdefs.FailedPreconditionf("no freezer")
}

func (e *echo) ResumeTask(_ context.Context, id string) error {
	e.keep("resume", id)
	return nil
}

func (e *echo) CheckpointTask(_ context.Context, id, dir string) error {
	e.keep(id, dir)
	return errdefs.FailedPreconditionf("a device of it has no state")
}

func (e *echo) RestoreTask(_ context.Context, c *driver.TaskConfig, dir string) (*driver.Handle, *driver.NetworkOverride, error) {
	e.keep(*c, dir)
	if dir == "" {
		return nil, nil, nil
	}
	h, n := filled[driver.Handle](), filled[driver.NetworkOverride]()
	return &h, &n, nil
}

func (e *echo) CreateNetwork(_ context.Context, r driver.NetworkRequest) (*driver.NetworkIsolation, error) {
	e.keep(r)
	n := filled[driver.NetworkIsolation]()
	if r.AllocID == "nowhere" {
		n.Path = ""
	}
	return &n, nil
}

func (e *echo) DestroyNetwork(_ context.Context, allocID string, n *driver.NetworkIsolation) error {
	e.keep(allocID, n)
	return nil
}

func (e *echo) RecoverTask(_ context.Context, h *driver.Handle) error {
	e.keep(*h)
	return nil
}
func (e *echo) WaitTask(context.Context, string) (driver.ExitResult, error) {
	return filled[driver.ExitResult](), nil
}
func (e *echo) StopTask(_ context.Context, id string, timeout time.Duration, signal string) error {
	e.keep(id, timeout, signal)
	return errdefs.WithRetryable(errdefs.Conflictf("busy"), false)
}
func (e *echo) DestroyTask(_ context.Context, ref driver.TaskRef, force bool) error {
	e.keep(ref, force)
	return nil
}
func (e *echo) SignalTask(_ context.Context, id, signal string) error {
	e.keep(id, signal)
	return nil
}
func (e *echo) InspectTask(context.Context, string) (*driver.TaskStatus, error) {
	s := filled[driver.TaskStatus]()
	return &s, nil
}

func one[T any](ctx context.Context, v T) (<-chan T, error) {
	ch := make(chan T, 1)
	ch <- v
	go func() {
		<-ctx.Done()
		close(ch)
	}()
	return ch, nil
}

func (e *echo) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	return one(ctx, filled[driver.Fingerprint]())
}
func (e *echo) TaskStats(ctx context.Context, d time.Duration) (<-chan []driver.TaskStats, error) {
	e.keep(d)
	return one(ctx, filled[[]driver.TaskStats]())
}
func (e *echo) TaskEvents(context.Context) (<-chan driver.TaskEvent, error) {
	return nil, errdefs.Unimplementedf("no events here")
}

func connect(t *testing.T, drivers ...driver.Driver) ([]driver.Driver, *grpc.ClientConn) {
	t.Helper()
	conn := serve(t, driver.Service(drivers...))
	out, err := driver.Connect(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	return out, conn
}

// serve serves the service and returns a connection to it.
func serve(t *testing.T, service plugin.Service) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	plugin.Register(server, plugin.Info{Name: "echo", Version: "1"}, service)
	go func() { _ = server.Serve(listener) }() // ends with Stop
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
	})
	return conn
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\ngot  %+v\nwant %+v", what, got, want)
	}
}

func TestEveryFieldOfTheContractSurvivesTheWire(t *testing.T) {
	info := driver.Info{Name: "echo", Capabilities: filled[driver.Capabilities](),
		ConfigSchema:     schema.Schema{Attributes: []schema.Attribute{{Name: "a", Type: schema.String, Default: "x", Description: "d"}}},
		TaskConfigSchema: schema.Schema{Attributes: []schema.Attribute{{Name: "b", Type: schema.Block, Block: &schema.Schema{}, Required: true}}},
	}
	e := &echo{info: info}
	drivers, conn := connect(t, e)
	d, ctx := drivers[0], t.Context()
	info.Features = []driver.Feature{driver.FeatureListTasks, driver.FeatureUpdateResources, driver.FeaturePause, driver.FeatureCheckpoint, driver.FeatureNetworks} // found by Service
	same(t, "Info", d.Info(), info)

	if err := d.SetConfig(ctx, []byte("{}")); err != nil {
		t.Error(err)
	}
	same(t, "SetConfig", e.last(), []any{"{}"})
	config := filled[driver.TaskConfig]()
	h, n, err := d.StartTask(ctx, &config)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "TaskConfig", e.last(), []any{config})
	same(t, "Handle", *h, filled[driver.Handle]())
	same(t, "NetworkOverride", *n, filled[driver.NetworkOverride]())
	if err := d.RecoverTask(ctx, h); err != nil {
		t.Error(err)
	}
	same(t, "RecoverTask", e.last(), []any{*h})
	list, err := d.(driver.Lister).ListTasks(ctx)
	if err != nil || len(list) != 1 {
		t.Fatalf("ListTasks: %v, %v", list, err)
	}
	same(t, "ListTasks", *list[0], filled[driver.Handle]())
	err = d.(driver.Updater).UpdateTask(ctx, "t", filled[driver.Resources]())
	if !errdefs.IsFailedPrecondition(err) || err.Error() != "it uses more" {
		t.Errorf("UpdateTask: %v", err)
	}
	same(t, "UpdateTask", e.last(), []any{"t", filled[driver.Resources]()})
	r, err := d.WaitTask(ctx, "t")
	same(t, "WaitTask", []any{r, err}, []any{filled[driver.ExitResult](), error(nil)})
	err = d.StopTask(ctx, "t", 1500*time.Millisecond, "SIGHUP")
	if !errdefs.IsConflict(err) || errdefs.IsRetryable(err) || err.Error() != "busy" {
		t.Errorf("StopTask: %v", err)
	}
	same(t, "StopTask", e.last(), []any{"t", 1500 * time.Millisecond, "SIGHUP"})
	ref := driver.TaskRef{ID: "t", AllocDir: "/alloc", TaskDir: "/alloc/web"}
	if err := d.DestroyTask(ctx, ref, true); err != nil {
		t.Error(err)
	}
	same(t, "DestroyTask", e.last(), []any{ref, true})
	if err := d.SignalTask(ctx, "t", "SIGHUP"); err != nil {
		t.Error(err)
	}
	same(t, "SignalTask", e.last(), []any{"t", "SIGHUP"})
	status, err := d.InspectTask(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "InspectTask", *status, filled[driver.TaskStatus]())
	said, err := plugin.Ask(ctx, conn)
	same(t, "plugin.Info", []any{said, err}, []any{plugin.Info{Name: "echo", Version: "1", Kinds: []plugin.Kind{driver.Kind}}, error(nil)})
}

func TestStreamsDeliverAndEndWithTheirContext(t *testing.T) {
	e := &echo{info: driver.Info{Name: "echo"}}
	drivers, _ := connect(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	prints, err := drivers[0].Fingerprint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	stats, err := drivers[0].TaskStats(ctx, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "Fingerprint", <-prints, filled[driver.Fingerprint]())
	same(t, "TaskStats", <-stats, filled[[]driver.TaskStats]())
	same(t, "interval", e.last(), []any{time.Second})
	cancel()
	if _, open := <-prints; open {
		t.Error("fingerprints go on")
	}
	if _, open := <-stats; open {
		t.Error("stats go on")
	}
}

func TestARefusedStreamIsAnErrorAtOnce(t *testing.T) {
	drivers, _ := connect(t, &echo{info: driver.Info{Name: "echo"}})
	if _, err := drivers[0].TaskEvents(t.Context()); !errdefs.IsUnimplemented(err) || err.Error() != "no events here" {
		t.Errorf("TaskEvents: %v", err)
	}
	if _, err := drivers[0].TaskStats(t.Context(), 0); !errdefs.IsInvalidArgument(err) {
		t.Errorf("TaskStats without an interval: %v", err)
	}
}

func TestDriversOfOnePluginAreToldApart(t *testing.T) {
	a, b := &echo{info: driver.Info{Name: "a"}}, &echo{info: driver.Info{Name: "b"}}
	drivers, _ := connect(t, a, b)
	if len(drivers) != 2 || drivers[0].Info().Name != "a" || drivers[1].Info().Name != "b" {
		t.Fatal("order or names differ")
	}
	if err := drivers[1].SignalTask(t.Context(), "t", "SIGHUP"); err != nil {
		t.Fatal(err)
	}
	if a.last() != nil || b.last() == nil {
		t.Fatal("the call reached the wrong driver")
	}
}

func TestAPluginThatIsGoneIsUnavailable(t *testing.T) {
	drivers, conn := connect(t, &echo{info: driver.Info{Name: "echo"}})
	_ = conn.Close()
	_, err := drivers[0].WaitTask(t.Context(), "t")
	if !errdefs.IsUnavailable(err) && !errdefs.IsCanceled(err) {
		t.Fatalf("class %s: %v", errdefs.ClassOf(err), err)
	}
}

func TestAProcessWithoutAHostSaysWhatItIs(t *testing.T) {
	err := plugin.Serve(plugin.Info{Name: "driver-x"}, driver.Service())
	if err == nil || !strings.Contains(err.Error(), "driver-x is a plugin of drover") {
		t.Fatalf("%v", err)
	}
}

func TestNetworksSurviveTheWire(t *testing.T) {
	e := &echo{info: driver.Info{Name: "echo"}}
	drivers, _ := connect(t, e, plain{})
	d, ctx := drivers[0].(driver.Networker), t.Context()
	n, err := d.CreateNetwork(ctx, filled[driver.NetworkRequest]())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "CreateNetwork", e.last(), []any{filled[driver.NetworkRequest]()})
	same(t, "the network", *n, filled[driver.NetworkIsolation]())
	for _, known := range []*driver.NetworkIsolation{n, nil} {
		if err := d.DestroyNetwork(ctx, "alloc", known); err != nil {
			t.Error(err)
		}
		same(t, "DestroyNetwork", e.last(), []any{"alloc", known})
	}
	if _, err := d.CreateNetwork(ctx, driver.NetworkRequest{AllocID: "nowhere"}); errdefs.ClassOf(err) != errdefs.Internal {
		t.Errorf("a network that is nowhere: %v, want that the plugin is defective", err)
	}
	without := drivers[1].(driver.Networker)
	if _, err := without.CreateNetwork(ctx, driver.NetworkRequest{AllocID: "a"}); !errdefs.IsUnimplemented(err) {
		t.Errorf("CreateNetwork of a driver without networks: %v", err)
	}
	if err := without.DestroyNetwork(ctx, "a", nil); !errdefs.IsUnimplemented(err) {
		t.Errorf("DestroyNetwork of a driver without networks: %v", err)
	}
}

func TestPauseAndResumeCrossTheWire(t *testing.T) {
	e := &echo{info: driver.Info{Name: "echo"}}
	drivers, _ := connect(t, e, plain{})
	d, without := drivers[0].(driver.Pauser), drivers[1].(driver.Pauser)
	if err := d.PauseTask(t.Context(), "t"); !errdefs.IsFailedPrecondition(err) || err.Error() != "no freezer" {
		t.Errorf("PauseTask: %v", err)
	}
	same(t, "PauseTask", e.last(), []any{"pause", "t"})
	if err := d.ResumeTask(t.Context(), "t"); err != nil {
		t.Errorf("ResumeTask: %v", err)
	}
	same(t, "ResumeTask", e.last(), []any{"resume", "t"})
	for what, err := range map[string]error{"PauseTask": without.PauseTask(t.Context(), "t"), "ResumeTask": without.ResumeTask(t.Context(), "t")} {
		if !errdefs.IsUnimplemented(err) {
			t.Errorf("%s of a driver that cannot: %v", what, err)
		}
	}
}

func TestCheckpointsCrossTheWire(t *testing.T) {
	e := &echo{info: driver.Info{Name: "echo"}}
	drivers, _ := connect(t, e, plain{})
	d, ctx := drivers[0].(driver.Checkpointer), t.Context()
	if err := d.CheckpointTask(ctx, "t", "/dir"); !errdefs.IsFailedPrecondition(err) || err.Error() != "a device of it has no state" {
		t.Errorf("CheckpointTask: %v", err)
	}
	same(t, "CheckpointTask", e.last(), []any{"t", "/dir"})
	config := filled[driver.TaskConfig]()
	h, n, err := d.RestoreTask(ctx, &config, "/dir")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "RestoreTask", e.last(), []any{config, "/dir"})
	same(t, "Handle", *h, filled[driver.Handle]())
	same(t, "NetworkOverride", *n, filled[driver.NetworkOverride]())
	if _, _, err := d.RestoreTask(ctx, &config, ""); errdefs.ClassOf(err) != errdefs.Internal {
		t.Errorf("a task without a handle: %v, want that the plugin is defective", err)
	}
	without := drivers[1].(driver.Checkpointer)
	if err := without.CheckpointTask(ctx, "t", "/dir"); !errdefs.IsUnimplemented(err) {
		t.Errorf("CheckpointTask of a driver that cannot: %v", err)
	}
	if _, _, err := without.RestoreTask(ctx, &config, "/dir"); !errdefs.IsUnimplemented(err) {
		t.Errorf("RestoreTask of a driver that cannot: %v", err)
	}
}
