// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// faulty is a CSI driver that fails, hangs, answers late, forgets, lies or restarts at each
// call, by chance. Its mounts are real, so that what it leaves is seen.
type faulty struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	t      *testing.T
	dir    string
	socket string

	mu      sync.Mutex
	chance  *rand.Rand
	calm    bool // no more faults
	life    int  // counts restarts
	server  *grpc.Server
	volumes map[string]string          // names by id
	nodes   map[string]bool            // volumes that are attached
	knows   map[string]map[string]bool // paths by volume that it remembers
	now     map[string]context.Context // of the call in progress, by volume
	wrong   []string                   // what the plugin must not have done
	faults  map[string]int             // how many of each kind there were
}

func newFaulty(t *testing.T, seed int64) *faulty {
	dir := t.TempDir()
	d := &faulty{
		t: t, dir: dir, socket: filepath.Join(dir, "csi.sock"), chance: rand.New(rand.NewSource(seed)), volumes: map[string]string{}, nodes: map[string]bool{},
		knows: map[string]map[string]bool{}, now: map[string]context.Context{}, faults: map[string]int{},
	}
	d.serve()
	t.Cleanup(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.server.Stop()
		for _, path := range d.mounts() { // of a test that failed
			_ = unix.Unmount(path, unix.MNT_DETACH)
		}
	})
	return d
}

// serve listens anew. The lock is held, or nobody else has the driver yet.
func (d *faulty) serve() {
	_ = os.Remove(d.socket)
	l, err := net.Listen("unix", d.socket)
	if err != nil {
		d.t.Errorf("listen: %v", err)
		return
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // the next one may be there already
	}
	s := grpc.NewServer()
	csi.RegisterIdentityServer(s, d)
	csi.RegisterControllerServer(s, d)
	csi.RegisterNodeServer(s, d)
	d.server = s
	go func() { _ = s.Serve(l) }() // returns after Stop
}

// mounts returns what is mounted below the directory.
func (d *faulty) mounts() (out []string) {
	all, err := mountinfo.GetMounts(mountinfo.PrefixFilter(d.dir))
	if err != nil {
		d.t.Errorf("%v", err)
	}
	for _, m := range all {
		out = append(out, m.Mountpoint)
	}
	return out
}

func (d *faulty) wronged(format string, args ...any) {
	d.wrong = append(d.wrong, fmt.Sprintf(format, args...))
}

var codesOfFaults = []codes.Code{
	codes.Aborted, codes.Unavailable, codes.Internal, codes.Unknown, codes.DeadlineExceeded, codes.ResourceExhausted, codes.FailedPrecondition, codes.DataLoss,
}

// call carries out one call about a volume, with a fault or without. effect does what the call
// is for, with the lock held.
func (d *faulty) call(ctx context.Context, id string, effect func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if before := d.now[id]; before != nil && before.Err() == nil {
		d.wronged("two calls for volume %q at once", id)
	}
	d.now[id] = ctx
	defer delete(d.now, id)
	life := d.life
	// A process that was restarted does nothing more for calls of before.
	do := func() error {
		if d.life != life {
			return status.Error(codes.Unavailable, "the driver was restarted")
		}
		return effect()
	}
	away := func(how func()) {
		d.mu.Unlock()
		how()
		d.mu.Lock()
	}
	fault := "none"
	if !d.calm && d.chance.Intn(100) < 55 {
		fault = []string{"fails before", "fails after", "late", "late", "hangs", "hangs after", "forgets", "lies", "restarts", "restarts after", "slow"}[d.chance.Intn(11)]
		if (fault == "hangs" || fault == "hangs after") && d.chance.Intn(4) > 0 { // each costs a second
			fault = "late"
		}
	}
	d.faults[fault]++
	failure := status.Error(codesOfFaults[d.chance.Intn(len(codesOfFaults))], "a fault")
	pause := time.Duration(d.chance.Intn(60)) * time.Millisecond
	switch fault {
	case "fails before":
		return failure
	case "fails after":
		_ = do() // the answer is lost
		return failure
	case "late": // longer than some callers wait
		away(func() { <-time.After(pause) })
		return do()
	case "slow":
		err := do()
		away(func() { <-time.After(pause) })
		return err
	case "hangs":
		away(func() { <-ctx.Done() })
		return failure
	case "hangs after":
		_ = do()
		away(func() { <-ctx.Done() })
		return failure
	case "forgets":
		delete(d.knows, id)
		return do()
	case "lies":
		return nil
	case "restarts", "restarts after":
		if fault == "restarts after" {
			_ = do()
		}
		d.life++
		clear(d.knows) // what is mounted stays
		d.server.Stop()
		d.serve()
		return failure
	}
	return do()
}

// put mounts a volume at a path. A driver that has forgotten mounts again.
func (d *faulty) put(id, path string) error {
	if d.knows[id][path] {
		return nil
	}
	if _, known := d.volumes[id]; !known {
		return status.Error(codes.NotFound, "no such volume")
	}
	from := filepath.Join(d.dir, "backing", id)
	if err := errors.Join(os.MkdirAll(from, 0o700), os.MkdirAll(path, 0o700), unix.Mount(from, path, "", unix.MS_BIND, "")); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if d.knows[id] == nil {
		d.knows[id] = map[string]bool{}
	}
	d.knows[id][path] = true
	return nil
}

// take unmounts it. What the driver does not know it does not unmount, and it says one of two
// things then.
func (d *faulty) take(id, path string) error {
	if !d.knows[id][path] {
		if d.chance.Intn(2) == 0 {
			return status.Error(codes.NotFound, "no such volume here")
		}
		return nil
	}
	if err := unix.Unmount(path, 0); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
		return status.Error(codes.Internal, err.Error())
	}
	delete(d.knows[id], path)
	return nil
}

func (d *faulty) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

func (d *faulty) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: "faulty.example.org", VendorVersion: "1"}, nil
}

func (d *faulty) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

func (d *faulty) CreateVolume(ctx context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	id := "id-of-" + r.GetName()
	err := d.call(ctx, "name "+r.GetName(), func() error {
		d.volumes[id] = r.GetName()
		return nil
	})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.calm && d.chance.Intn(8) == 0 {
		for other, name := range d.volumes {
			if name != r.GetName() {
				id = other // another volume's
			}
		}
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: id}}, nil
}

func (d *faulty) DeleteVolume(ctx context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	id := r.GetVolumeId()
	return &csi.DeleteVolumeResponse{}, d.call(ctx, id, func() error {
		if d.nodes[id] {
			return status.Error(codes.FailedPrecondition, "it is attached")
		}
		delete(d.volumes, id)
		return nil
	})
}

func (d *faulty) ControllerPublishVolume(ctx context.Context, r *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	id := r.GetVolumeId()
	return &csi.ControllerPublishVolumeResponse{}, d.call(ctx, id, func() error { d.nodes[id] = true; return nil })
}

func (d *faulty) ControllerUnpublishVolume(ctx context.Context, r *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	id := r.GetVolumeId()
	return &csi.ControllerUnpublishVolumeResponse{}, d.call(ctx, id, func() error { delete(d.nodes, id); return nil })
}

func (d *faulty) NodeStageVolume(ctx context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	return &csi.NodeStageVolumeResponse{}, d.call(ctx, r.GetVolumeId(), func() error { return d.put(r.GetVolumeId(), r.GetStagingTargetPath()) })
}

func (d *faulty) NodeUnstageVolume(ctx context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	return &csi.NodeUnstageVolumeResponse{}, d.call(ctx, r.GetVolumeId(), func() error { return d.take(r.GetVolumeId(), r.GetStagingTargetPath()) })
}

func (d *faulty) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	id, path := r.GetVolumeId(), r.GetTargetPath()
	return &csi.NodePublishVolumeResponse{}, d.call(ctx, id, func() error {
		for _, other := range d.mounts() {
			if filepath.Dir(other) == filepath.Dir(path) && other != path && filepath.Base(other) != "staging" {
				d.wronged("volume %q is published at %s, and then at %s", id, other, path)
			}
		}
		return d.put(id, path)
	})
}

func (d *faulty) NodeUnpublishVolume(ctx context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	return &csi.NodeUnpublishVolumeResponse{}, d.call(ctx, r.GetVolumeId(), func() error { return d.take(r.GetVolumeId(), r.GetTargetPath()) })
}
