// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-project/drover/plugins/csi/csiplugin"
	"github.com/drover-project/drover/sdk/errdefs"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

// answering is a driver whose answers a test sets.
type answering struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	create   func(*csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error)
	list     func(*csi.ListVolumesRequest) (*csi.ListVolumesResponse, error)
	get      func(*csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error)
	snapshot func(*csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error)
	remove   func(*csi.DeleteVolumeRequest) error
	attach   func(*csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error)
}

func (d *answering) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: "answering.example.org", VendorVersion: "1.2"}, nil
}
func (d *answering) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}
func (d *answering) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}}},
	}}, nil
}
func (d *answering) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: []*csi.ControllerServiceCapability{
		{Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: csi.ControllerServiceCapability_RPC_LIST_VOLUMES}}},
	}}, nil
}
func (d *answering) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	return d.create(r)
}
func (d *answering) ListVolumes(_ context.Context, r *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	return d.list(r)
}
func (d *answering) ControllerGetVolume(_ context.Context, r *csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
	return d.get(r)
}
func (d *answering) CreateSnapshot(_ context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	return d.snapshot(r)
}
func (d *answering) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, d.remove(r)
}
func (d *answering) ControllerPublishVolume(_ context.Context, r *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	return d.attach(r)
}

// before runs the driver and a plugin before it.
func before(t *testing.T, d *answering) *csiplugin.Plugin {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.MaxSendMsgSize(64 << 20))
	csi.RegisterIdentityServer(s, d)
	csi.RegisterControllerServer(s, d)
	go func() { _ = s.Serve(l) }() // returns after Stop
	t.Cleanup(s.Stop)
	p := csiplugin.New(t.TempDir())
	p.Hurry()
	if err := p.SetConfig(t.Context(), config(t, map[string]any{"endpoint": "unix://" + socket})); err != nil {
		t.Fatal(err)
	}
	return p
}

// config is a config with the defaults of the schema.
func config(t *testing.T, set map[string]any) []byte {
	t.Helper()
	s := csiplugin.New("/").Info().ConfigSchema
	full, err := s.Apply(set)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

var writer = []volume.Access{{Mode: volume.SingleNodeWriter}}

func TestConfigsThatCannotWorkAreRefused(t *testing.T) {
	p := csiplugin.New(t.TempDir())
	for _, set := range []map[string]any{
		{"endpoint": "csi.sock"}, {"endpoint": "tcp://10.0.0.1:80"}, {"endpoint": "/s", "host_dir": "/a"}, {"endpoint": "/s", "host_dir": "/a", "driver_dir": "b"},
		{"endpoint": "/s", "call_timeout": "0s"}, {"endpoint": "/s", "controller": false, "node": false},
	} {
		if err := p.SetConfig(t.Context(), config(t, set)); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%v: %v, want InvalidArgument", set, err)
		}
	}
	if _, err := p.Create(t.Context(), volume.CreateRequest{Name: "v", Access: writer}); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("Create without a config: %v, want FailedPrecondition", err)
	}
}

func TestAnswersThatAreNotWhatWasAskedForAreNotUsed(t *testing.T) {
	d := &answering{}
	p := before(t, d)
	ask := volume.CreateRequest{Name: "v", Access: writer, Capacity: volume.CapacityRange{RequiredBytes: 100, LimitBytes: 200}, Secrets: volume.Secrets{"key": "hush-hush"}}
	for what, v := range map[string]*csi.Volume{
		"nothing": nil, "no id": {CapacityBytes: 100}, "a long id": {VolumeId: strings.Repeat("x", 5000)}, "an id of two lines": {VolumeId: "a\nb"},
		"too small": {VolumeId: "a", CapacityBytes: 99}, "too large": {VolumeId: "a", CapacityBytes: 201}, "below zero": {VolumeId: "a", CapacityBytes: -1},
		"a huge context": {VolumeId: "a", VolumeContext: map[string]string{"k": strings.Repeat("x", 100<<10)}}, "a secret": {VolumeId: "a", VolumeContext: map[string]string{"k": "hush-hush"}},
		"another source": {VolumeId: "a", ContentSource: &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: "b"}}}},
	} {
		d.create = func(*csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
			return &csi.CreateVolumeResponse{Volume: v}, nil
		}
		if _, err := p.Create(t.Context(), ask); !errdefs.IsInternal(err) || errdefs.ReasonOf(err) != volume.ReasonDefective || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, reason %q", what, err, errdefs.ReasonOf(err))
		}
	}
	d.create = func(*csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
		return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: "one"}}, nil
	}
	if _, err := p.Create(t.Context(), volume.CreateRequest{Name: "first", Access: writer}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Create(t.Context(), volume.CreateRequest{Name: "second", Access: writer}); errdefs.ReasonOf(err) != volume.ReasonDefective {
		t.Errorf("the id of another volume: %v", err)
	}
	d.get = func(*csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
		return &csi.ControllerGetVolumeResponse{Volume: &csi.Volume{VolumeId: "other"}}, nil
	}
	if _, err := p.Get(t.Context(), "v"); errdefs.ReasonOf(err) != volume.ReasonDefective {
		t.Errorf("Get of another volume: %v", err)
	}
	d.snapshot = func(*csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
		return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{SnapshotId: "s", SourceVolumeId: "other"}}, nil
	}
	if _, err := p.CreateSnapshot(t.Context(), volume.SnapshotRequest{Name: "s", VolumeID: "v"}); errdefs.ReasonOf(err) != volume.ReasonDefective {
		t.Errorf("a snapshot of another volume: %v", err)
	}
}

// The driver of GCE is asked for a copy of a disk by its name, and answers with its number.
func TestASourceMayHaveAnotherNameInTheAnswer(t *testing.T) {
	d := &answering{}
	p := before(t, d)
	volumeSource := &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: "9"}}}
	snapshotSource := &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: "8"}}}
	for what, c := range map[string]struct {
		snapshot, volume string
		answer           *csi.VolumeContentSource
		want             string
	}{
		"a copy":                    {volume: "disks/a", answer: volumeSource},
		"a snapshot's content":      {snapshot: "snapshots/a", answer: snapshotSource},
		"nothing for a copy":        {volume: "disks/a", want: volume.ReasonDefective},
		"a snapshot for a copy":     {volume: "disks/a", answer: snapshotSource, want: volume.ReasonDefective},
		"a copy instead of nothing": {answer: volumeSource, want: volume.ReasonDefective},
	} {
		d.create = func(*csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
			return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: "b", ContentSource: c.answer}}, nil
		}
		got, err := p.Create(t.Context(), volume.CreateRequest{Name: "b", Access: writer, SourceSnapshot: c.snapshot, SourceVolume: c.volume})
		if errdefs.ReasonOf(err) != c.want || c.want == "" && (err != nil || got.SourceSnapshot != c.snapshot || got.SourceVolume != c.volume) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}

func TestAValueThatIsSaidInClearTooIsNoSecret(t *testing.T) {
	d := &answering{create: func(r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
		return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: "a", VolumeContext: map[string]string{"pool": r.Parameters["pool"], "journalPool": "nomad", "imageName": "vol-1"}}}, nil
	}, attach: func(r *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
		return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{"at": r.VolumeContext["pool"]}}, nil
	}}
	p := before(t, d)
	secrets := volume.Secrets{"userID": "nomad", "userKey": "hush-hush"} // as in the manual of Ceph
	pool := map[string]string{"pool": "nomad"}
	if _, err := p.Create(t.Context(), volume.CreateRequest{Name: "v", Access: writer, Parameters: pool, Secrets: secrets}); err != nil {
		t.Errorf("the pool has the name of the user: %v", err)
	}
	if _, err := p.Attach(t.Context(), volume.AttachRequest{ID: "a", NodeID: "n", Access: writer[0], Context: pool, Secrets: secrets}); err != nil {
		t.Errorf("the pool has the name of the user: %v", err)
	}
	pool["pool"] = "other"
	if _, err := p.Create(t.Context(), volume.CreateRequest{Name: "v", Access: writer, Parameters: pool, Secrets: secrets}); errdefs.ReasonOf(err) != volume.ReasonDefective {
		t.Errorf("a secret that only the secrets have: %v", err)
	}
}

func TestAHundredThousandVolumesComeInPages(t *testing.T) {
	const count = 100_000
	entries := make([]*csi.ListVolumesResponse_Entry, count)
	for i := range entries {
		entries[i] = &csi.ListVolumesResponse_Entry{Volume: &csi.Volume{VolumeId: fmt.Sprintf("volume-%06d", i), CapacityBytes: 1 << 30}}
	}
	d := &answering{list: func(*csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
		return &csi.ListVolumesResponse{Entries: entries}, nil // it knows no limit
	}}
	p := before(t, d)
	seen, after := 0, ""
	for pages := 0; ; pages++ {
		page, err := p.List(t.Context(), volume.PageRequest{After: after})
		if err != nil || len(page.Volumes) > 5000 || pages > 30 {
			t.Fatalf("page %d: %v", pages, err)
		}
		for _, v := range page.Volumes {
			if want := fmt.Sprintf("volume-%06d", seen); v.ID != want {
				t.Fatalf("volume %d is %q", seen, v.ID)
			}
			seen++
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if seen != count {
		t.Errorf("%d volumes were listed", seen)
	}
}

// The hostpath driver of the Kubernetes project names a node for each volume, which has no name if
// the volume is nowhere.
func TestAListWithANodeWithoutANameIsTaken(t *testing.T) {
	entry := &csi.ListVolumesResponse_Entry{Volume: &csi.Volume{VolumeId: "a"}, Status: &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: []string{""}}}
	p := before(t, &answering{list: func(*csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
		return &csi.ListVolumesResponse{Entries: []*csi.ListVolumesResponse_Entry{entry}}, nil
	}})
	if page, err := p.List(t.Context(), volume.PageRequest{}); err != nil || len(page.Volumes) != 1 || page.Volumes[0].ID != "a" {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestListsThatDoNotEndOrBeginAnewAreNoticed(t *testing.T) {
	d := &answering{list: func(*csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
		return &csi.ListVolumesResponse{Entries: []*csi.ListVolumesResponse_Entry{{Volume: &csi.Volume{VolumeId: "a"}}}, NextToken: "same"}, nil
	}}
	p := before(t, d)
	page, err := p.List(t.Context(), volume.PageRequest{})
	if err != nil || page.Next == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	if _, err := p.List(t.Context(), volume.PageRequest{After: page.Next}); errdefs.ReasonOf(err) != volume.ReasonDefective {
		t.Errorf("a list that goes on where it began: %v", err)
	}
	d.list = func(*csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
		return nil, status.Error(codes.Aborted, "the token is too old")
	}
	for _, after := range []string{page.Next, "garbage"} {
		if _, err := p.List(t.Context(), volume.PageRequest{After: after}); !errdefs.IsAborted(err) || errdefs.ReasonOf(err) != volume.ReasonStartAgain {
			t.Errorf("after %q: %v, reason %q", after, err, errdefs.ReasonOf(err))
		}
	}
}

// The table of errors of CSI.
func TestCallsAreRepeatedOnlyWhereItHelps(t *testing.T) {
	for code, want := range map[codes.Code]struct {
		class errdefs.Class
		tries int32
	}{
		codes.Aborted: {"", 3}, codes.Unavailable: {"", 3}, codes.DeadlineExceeded: {"", 3},
		codes.InvalidArgument: {errdefs.InvalidArgument, 1}, codes.FailedPrecondition: {errdefs.FailedPrecondition, 1}, codes.Unimplemented: {errdefs.Unimplemented, 1},
		codes.ResourceExhausted: {errdefs.ResourceExhausted, 1}, codes.AlreadyExists: {errdefs.AlreadyExists, 1}, codes.OutOfRange: {errdefs.InvalidArgument, 1},
		codes.PermissionDenied: {errdefs.PermissionDenied, 1}, codes.Unauthenticated: {errdefs.PermissionDenied, 1}, codes.Internal: {errdefs.Internal, 1},
		codes.Unknown: {errdefs.Internal, 1}, codes.NotFound: {"", 1}, // what is to be deleted does not exist
	} {
		t.Run(code.String(), func(t *testing.T) {
			var tries atomic.Int32
			p := before(t, &answering{remove: func(*csi.DeleteVolumeRequest) error {
				if tries.Add(1) == 3 {
					return nil
				}
				return status.Error(code, "no")
			}})
			err := p.Delete(t.Context(), "v", nil)
			if errdefs.ClassOf(err) != want.class || tries.Load() != want.tries {
				t.Errorf("%v after %d tries, want %q after %d", err, tries.Load(), want.class, want.tries)
			}
			if code == codes.FailedPrecondition && errdefs.ReasonOf(err) != volume.ReasonInUse {
				t.Errorf("reason %q", errdefs.ReasonOf(err))
			}
		})
	}
}

func TestSecretsAreNotInErrors(t *testing.T) {
	const secret = "pa ss/wörd\"x"
	secrets := volume.Secrets{"key": secret}
	quoted, _ := json.Marshal(secret)
	for _, said := range []string{
		"denied for " + secret, "denied for " + string(quoted), fmt.Sprintf("denied for %q", secret), "https://a:pa+ss%2Fw%C3%B6rd%22x@b", "https://a:pa%20ss%2Fw%C3%B6rd%22x@b",
		base64.StdEncoding.EncodeToString([]byte(secret)), strings.Repeat("long ", 1000) + secret,
	} {
		p := before(t, &answering{remove: func(*csi.DeleteVolumeRequest) error { return status.Error(codes.InvalidArgument, said) }})
		err := p.Delete(t.Context(), "v", secrets)
		if err == nil || strings.Contains(err.Error(), "rd") || len(err.Error()) > 1200 || strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("said %q: %v", said, err)
		}
	}
	// A driver may remember what it was told, and say it where a call has no secrets.
	p := before(t, &answering{
		remove: func(*csi.DeleteVolumeRequest) error { return nil },
		get: func(*csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
			return nil, status.Error(codes.Internal, "busy with "+secret)
		},
		list: func(*csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
			sick := &csi.ListVolumesResponse_VolumeStatus{VolumeCondition: &csi.VolumeCondition{Abnormal: true, Message: "wrong: " + secret}}
			return &csi.ListVolumesResponse{Entries: []*csi.ListVolumesResponse_Entry{{Volume: &csi.Volume{VolumeId: "v"}, Status: sick}}}, nil
		},
	})
	if err := p.Delete(t.Context(), "v", secrets); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Get(t.Context(), "v"); err == nil || !strings.Contains(err.Error(), "busy with (secret)") {
		t.Errorf("a call without secrets: %v", err)
	}
	if page, err := p.List(t.Context(), volume.PageRequest{}); err != nil || page.Volumes[0].Condition.Message != "wrong: (secret)" {
		t.Errorf("a condition: %+v, %v", page, err)
	}
	if got := csiplugin.Words("a b", volume.Secrets{"k": "b"}); strings.Contains(got, "b") && !strings.Contains(got, "hidden") {
		t.Errorf("a short secret: %q", got)
	}
}

func TestAModeThatTheDriverDoesNotKnowIsRefused(t *testing.T) {
	p := before(t, &answering{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	prints, err := p.Fingerprint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f := <-prints
	if f.Provider != "answering.example.org" || f.ProviderVersion != "1.2" || !f.Can(volume.CanList) || !f.Can(volume.CanValidate) || f.Can(volume.CanAttach) || f.Node != nil || f.Problem != "" {
		t.Errorf("fingerprint %+v", f)
	}
	for _, a := range []volume.Access{
		{Mode: volume.SingleNodeMultiWriter}, {Mode: "some-mode"}, {Mode: volume.SingleNodeWriter, MountGroup: "7"}, {Mode: volume.SingleNodeWriter, Attachment: "tape"},
		{Mode: volume.SingleNodeWriter, Attachment: volume.AttachmentBlockDevice, FSType: "ext4"},
	} {
		if _, err := p.Create(t.Context(), volume.CreateRequest{Name: "v", Access: []volume.Access{a}}); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%+v: %v, want InvalidArgument", a, err)
		}
	}
	if _, err := p.Attach(t.Context(), volume.AttachRequest{ID: "v", NodeID: "n", Access: writer[0], ReadOnly: true}); !errdefs.IsInvalidArgument(err) {
		t.Errorf("Attach read-only: %v, want InvalidArgument", err)
	}
}

func TestADriverThatIsAwayIsAProblemAndNotAnEnd(t *testing.T) {
	p := csiplugin.New(t.TempDir())
	if err := p.SetConfig(t.Context(), config(t, map[string]any{"endpoint": filepath.Join(t.TempDir(), "none.sock")})); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	prints, err := p.Fingerprint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if f := <-prints; f.Problem == "" || f.Node != nil {
		t.Errorf("fingerprint %+v", f)
	}
}
