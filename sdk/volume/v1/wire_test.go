// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volume_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/leak"
	"github.com/drover-project/drover/sdk/plugin/plugintest"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// fill sets every field that v has to a value of its own, so that a field which the wire
// forgets shows.
func fill(v reflect.Value, n *int) {
	*n++
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(int64(*n), 0).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(fmt.Sprintf("key-%d", *n)), reflect.ValueOf(fmt.Sprintf("value-%d", *n)))
	case reflect.String:
		v.SetString(fmt.Sprintf("value_%d", *n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Bool:
		v.SetBool(true)
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

// requestTo is a filled request with paths that are paths.
func requestTo[T any]() T {
	out := filled[T]()
	v := reflect.ValueOf(&out).Elem()
	for i := range v.NumField() {
		if strings.Contains(v.Type().Field(i).Name, "Path") {
			v.Field(i).SetString("/" + v.Field(i).String())
		}
	}
	return out
}

// echo answers with filled values, or with err, and keeps what it was asked.
type echo struct {
	asked any
	err   error
	// get and of override the ids of answers.
	get, of string
}

func ask[T any](e *echo, asked any) (T, error) {
	e.asked = asked
	return filled[T](), e.err
}

type two struct {
	id string
	b  any
}

func (e *echo) Info() volume.Info { return volume.Info{Name: "echo"} }
func (e *echo) SetConfig(_ context.Context, c []byte) error {
	e.asked = string(c)
	return e.err
}
func (e *echo) Fingerprint(ctx context.Context) (<-chan volume.Fingerprint, error) {
	out := make(chan volume.Fingerprint, 2)
	out <- filled[volume.Fingerprint]()
	out <- volume.Fingerprint{Problem: "none"}
	context.AfterFunc(ctx, func() { close(out) })
	return out, e.err
}
func (e *echo) Publish(_ context.Context, r volume.PublishRequest) error { e.asked = r; return e.err }
func (e *echo) Unpublish(_ context.Context, id, path string) error {
	e.asked = two{id, path}
	return e.err
}
func (e *echo) Published(context.Context) ([]volume.Publication, error) {
	return ask[[]volume.Publication](e, nil)
}
func (e *echo) Create(_ context.Context, r volume.CreateRequest) (*volume.Description, error) {
	return ask[*volume.Description](e, r)
}
func (e *echo) Delete(_ context.Context, id string, s volume.Secrets) error {
	e.asked = two{id, s}
	return e.err
}
func (e *echo) Validate(_ context.Context, r volume.ValidateRequest) error {
	e.asked = r
	return e.err
}
func (e *echo) List(_ context.Context, r volume.PageRequest) (*volume.VolumePage, error) {
	return ask[*volume.VolumePage](e, r)
}
func (e *echo) Get(_ context.Context, id string) (*volume.Description, error) {
	out, err := ask[*volume.Description](e, id)
	out.ID = e.get
	return out, err
}
func (e *echo) Capacity(_ context.Context, r volume.CapacityRequest) (*volume.Capacity, error) {
	return ask[*volume.Capacity](e, r)
}
func (e *echo) Expand(_ context.Context, r volume.ExpandRequest) (*volume.Expansion, error) {
	return ask[*volume.Expansion](e, r)
}
func (e *echo) Modify(_ context.Context, r volume.ModifyRequest) error { e.asked = r; return e.err }
func (e *echo) CreateSnapshot(_ context.Context, r volume.SnapshotRequest) (*volume.Snapshot, error) {
	out, err := ask[*volume.Snapshot](e, r)
	out.VolumeID = e.of
	return out, err
}
func (e *echo) DeleteSnapshot(_ context.Context, id string, s volume.Secrets) error {
	e.asked = two{id, s}
	return e.err
}
func (e *echo) ListSnapshots(_ context.Context, r volume.SnapshotPageRequest) (*volume.SnapshotPage, error) {
	return ask[*volume.SnapshotPage](e, r)
}
func (e *echo) Attach(_ context.Context, r volume.AttachRequest) (map[string]string, error) {
	return ask[map[string]string](e, r)
}
func (e *echo) Detach(_ context.Context, r volume.DetachRequest) error { e.asked = r; return e.err }
func (e *echo) Stage(_ context.Context, r volume.StageRequest) error   { e.asked = r; return e.err }
func (e *echo) Unstage(_ context.Context, id, path string) error {
	e.asked = two{id, path}
	return e.err
}
func (e *echo) NodeExpand(_ context.Context, r volume.NodeExpandRequest) (int64, error) {
	return ask[int64](e, r)
}
func (e *echo) Stats(_ context.Context, r volume.StatsRequest) (*volume.Stats, error) {
	return ask[*volume.Stats](e, r)
}

func connect(t *testing.T, v volume.Volume) volume.Full {
	conn, _ := plugintest.Serve(t, volume.Service(v))
	all, err := volume.Connect(t.Context(), conn)
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	return all[0]
}

func TestEveryFieldCrossesTheWire(t *testing.T) {
	e := &echo{get: "v"}
	v := connect(t, e)
	ctx := t.Context()
	same := func(what string, asked, got, want any, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", what, got, err, want)
		}
		if !reflect.DeepEqual(e.asked, asked) {
			t.Errorf("%s: asked %+v, want %+v", what, e.asked, asked)
		}
	}
	secrets := volume.Secrets{"a": "b"}
	same("SetConfig", `{"a":1}`, nil, nil, v.SetConfig(ctx, []byte(`{"a":1}`)))
	publish := requestTo[volume.PublishRequest]()
	same("Publish", publish, nil, nil, v.Publish(ctx, publish))
	same("Unpublish", two{"v", "/a"}, nil, nil, v.Unpublish(ctx, "v", "/a"))
	create := filled[volume.CreateRequest]()
	d, err := v.Create(ctx, create)
	same("Create", create, d, filled[*volume.Description](), err)
	same("Delete", two{"v", secrets}, nil, nil, v.Delete(ctx, "v", secrets))
	validate := filled[volume.ValidateRequest]()
	same("Validate", validate, nil, nil, v.Validate(ctx, validate))
	page, err := v.List(ctx, filled[volume.PageRequest]())
	same("List", filled[volume.PageRequest](), page, filled[*volume.VolumePage](), err)
	d, err = v.Get(ctx, "v")
	want := filled[*volume.Description]()
	want.ID = "v"
	same("Get", "v", d, want, err)
	c, err := v.Capacity(ctx, filled[volume.CapacityRequest]())
	same("Capacity", filled[volume.CapacityRequest](), c, filled[*volume.Capacity](), err)
	x, err := v.Expand(ctx, filled[volume.ExpandRequest]())
	same("Expand", filled[volume.ExpandRequest](), x, filled[*volume.Expansion](), err)
	same("Modify", filled[volume.ModifyRequest](), nil, nil, v.Modify(ctx, filled[volume.ModifyRequest]()))
	snapshot := filled[volume.SnapshotRequest]()
	e.of = snapshot.VolumeID
	made, err := v.CreateSnapshot(ctx, snapshot)
	wantSnapshot := filled[*volume.Snapshot]()
	wantSnapshot.VolumeID = e.of
	same("CreateSnapshot", snapshot, made, wantSnapshot, err)
	same("DeleteSnapshot", two{"s", secrets}, nil, nil, v.DeleteSnapshot(ctx, "s", secrets))
	snapshots, err := v.ListSnapshots(ctx, filled[volume.SnapshotPageRequest]())
	same("ListSnapshots", filled[volume.SnapshotPageRequest](), snapshots, filled[*volume.SnapshotPage](), err)
	attached, err := v.Attach(ctx, filled[volume.AttachRequest]())
	same("Attach", filled[volume.AttachRequest](), attached, filled[map[string]string](), err)
	same("Detach", filled[volume.DetachRequest](), nil, nil, v.Detach(ctx, filled[volume.DetachRequest]()))
	stage := requestTo[volume.StageRequest]()
	same("Stage", stage, nil, nil, v.Stage(ctx, stage))
	same("Unstage", two{"v", "/a"}, nil, nil, v.Unstage(ctx, "v", "/a"))
	grow := requestTo[volume.NodeExpandRequest]()
	size, err := v.NodeExpand(ctx, grow)
	same("NodeExpand", grow, size, filled[int64](), err)
	of := requestTo[volume.StatsRequest]()
	stats, err := v.Stats(ctx, of)
	same("Stats", of, stats, filled[*volume.Stats](), err)
	published, err := v.Published(ctx)
	same("Published", nil, published, filled[[]volume.Publication](), err)
}

func TestAFingerprintCrossesTheWireAndListsWhatThePluginCan(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	prints, err := connect(t, &echo{}).Fingerprint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-prints; !reflect.DeepEqual(got, filled[volume.Fingerprint]()) {
		t.Errorf("got %+v", got)
	}
	got := <-prints
	for _, f := range volume.KnownFeatures() {
		if !got.Can(volume.Capability(f)) {
			t.Errorf("a plugin that has everything and lists nothing cannot %s", f)
		}
	}
	if got.Can(volume.CanClone) {
		t.Error("a property that nobody listed")
	}
}

// least has nothing but what is required.
type least struct{ volume.Volume }

func TestWhatAPluginDoesNotHaveIsUnimplemented(t *testing.T) {
	v := connect(t, least{&echo{}})
	if got := volume.Features(v); len(got) != 0 {
		t.Errorf("it announces %q", got)
	}
	if err := v.Stage(t.Context(), requestTo[volume.StageRequest]()); !errdefs.IsUnimplemented(err) {
		t.Errorf("Stage: %v, want Unimplemented", err)
	}
}

func TestErrorsKeepTheirClassAndReason(t *testing.T) {
	e := &echo{err: errdefs.WithReason(errdefs.FailedPreconditionf("it is on another node"), volume.ReasonElsewhere)}
	v := connect(t, e)
	_, attached := v.Attach(t.Context(), volume.AttachRequest{ID: "v", NodeID: "n"})
	_, created := v.Create(t.Context(), volume.CreateRequest{Name: "v"})
	for what, err := range map[string]error{"Attach": attached, "Create": created, "Unpublish": v.Unpublish(t.Context(), "v", "/a")} {
		if !errdefs.IsFailedPrecondition(err) || errdefs.ReasonOf(err) != volume.ReasonElsewhere {
			t.Errorf("%s: %v, reason %q", what, err, errdefs.ReasonOf(err))
		}
	}
}

func TestRequestsWithoutIDsOrWithPathsThatLeadElsewhereAreRefused(t *testing.T) {
	e := &echo{}
	v := connect(t, e)
	_, created := v.Create(t.Context(), volume.CreateRequest{})
	_, attached := v.Attach(t.Context(), volume.AttachRequest{ID: "v"})
	for what, err := range map[string]error{
		"Create": created, "Attach": attached, "Delete": v.Delete(t.Context(), "", nil),
		"relative": v.Unpublish(t.Context(), "v", "a"), "dots": v.Unpublish(t.Context(), "v", "/a/../b"),
		"no path": v.Stage(t.Context(), volume.StageRequest{ID: "v"}),
	} {
		if !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v, want InvalidArgument", what, err)
		}
	}
	if e.asked != nil {
		t.Errorf("the plugin was asked %+v", e.asked)
	}
}

func TestAnswersAboutOtherVolumesAreNotUsed(t *testing.T) {
	v := connect(t, &echo{get: "other", of: "other"})
	_, got := v.Get(t.Context(), "v")
	_, snapshot := v.CreateSnapshot(t.Context(), volume.SnapshotRequest{Name: "s", VolumeID: "v"})
	for what, err := range map[string]error{"Get": got, "CreateSnapshot": snapshot} {
		if !errdefs.IsInternal(err) || errdefs.ReasonOf(err) != volume.ReasonDefective {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestSecretsDoNotShow(t *testing.T) {
	r := volume.CreateRequest{Name: "v", Secrets: volume.Secrets{"key": "hush"}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if got := fmt.Sprintf(format, r); len(got) == 0 || strings.Contains(got, "hush") || strings.Contains(got, "68757368") {
			t.Errorf("printed with %s: %s", format, got)
		}
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "secrets", r.Secrets)
	body, err := json.Marshal(r)
	if err != nil || strings.Contains(string(body)+log.String(), "hush") {
		t.Errorf("%s, %s, %v", body, &log, err)
	}
}
