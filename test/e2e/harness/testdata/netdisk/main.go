// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

// Command netdisk is a CSI driver for tests that behaves as a disk on a network does: a
// directory that the drivers of all nodes share plays the storage system. A volume must be
// attached to a node before it is staged there, one with a writer is attached to one node at a
// time, and it is not detached from a node that has it. A directory in it is the content of a
// volume, which nodes mount by bind mounts.
//
// A test steers it by files of the shared directory: faults/CALL with "fail" lets the call
// fail with the words that follow, one with "hang" lets it hang until the file is gone. The file calls has a line for each
// call that began, failed and succeeded.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	shared, node, part string

	mu   sync.Mutex
	busy map[string]bool
}

func main() {
	shared := flag.String("shared", "", "the `directory` of all nodes")
	node := flag.String("node-id", "", "the id of this node")
	part := flag.String("part", "", "controller or node: serve that part only, as a driver whose parts are programs of their own")
	endpoint := flag.String("endpoint", os.Getenv("CSI_ENDPOINT"), "the socket")
	flag.Parse()
	d := &driver{shared: *shared, node: *node, part: *part, busy: map[string]bool{}}
	path := strings.TrimPrefix(*endpoint, "unix://")
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		fail(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		fail(err)
	}
	s := grpc.NewServer()
	csi.RegisterIdentityServer(s, d)
	if d.part != "node" {
		csi.RegisterControllerServer(s, d)
	}
	if d.part != "controller" {
		csi.RegisterNodeServer(s, d)
	}
	fail(s.Serve(l))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "netdisk:", err)
	os.Exit(1)
}

func (d *driver) log(call, volume, what string) {
	f, err := os.OpenFile(filepath.Join(d.shared, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		fail(err)
	}
	fmt.Fprintf(f, "%s %s %s %s\n", d.node, call, volume, strings.ReplaceAll(what, "\n", " "))
	_ = f.Close()
}

// call carries out a call about a volume, one after the other, as the fault for it says.
func (d *driver) call(call, volume string, do func() error) error {
	d.mu.Lock()
	if d.busy[volume] {
		d.mu.Unlock()
		return status.Errorf(codes.Aborted, "another call about %q is in progress", volume)
	}
	d.busy[volume] = true
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.busy, volume)
	}()
	d.log(call, volume, "begins")
	fault := filepath.Join(d.shared, "faults", call)
	for {
		body, err := os.ReadFile(fault)
		if err != nil {
			break
		}
		if words, fails := strings.CutPrefix(string(body), "fail"); fails {
			err = status.Error(codes.Internal, "the fault of the test"+words)
			d.log(call, volume, "fails: "+err.Error())
			return err
		}
		<-time.After(10 * time.Millisecond) // whatever its caller thinks of that
	}
	if err := do(); err != nil {
		d.log(call, volume, "fails: "+err.Error())
		if _, ok := status.FromError(err); ok {
			return err
		}
		return status.Error(codes.Internal, err.Error())
	}
	d.log(call, volume, "is done")
	return nil
}

func (d *driver) of(id string, parts ...string) string {
	return filepath.Join(append([]string{d.shared, "volumes", id}, parts...)...)
}

// locked does something to the storage system's volume; other nodes wait meanwhile.
func (d *driver) locked(id string, do func() error) error {
	f, err := os.OpenFile(d.of(id, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return status.Errorf(codes.NotFound, "there is no volume %q", id)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	return do()
}

// nodes are the names of the files in a directory of a volume, which are ids of nodes.
func (d *driver) nodes(id, kind string) (out []string) {
	all, _ := os.ReadDir(d.of(id, kind)) // it may not be there any more
	for _, e := range all {
		out = append(out, e.Name())
	}
	return out
}

// GetPluginInfo implements csi.IdentityServer.
func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: "netdisk.example.org", VendorVersion: "1"}, nil
}

// GetPluginCapabilities implements csi.IdentityServer.
func (d *driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	if d.part == "node" {
		return &csi.GetPluginCapabilitiesResponse{}, nil
	}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{{Type: &csi.PluginCapability_Service_{
		Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE},
	}}}}, nil
}

// Probe implements csi.IdentityServer.
func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// ControllerGetCapabilities implements csi.ControllerServer.
func (d *driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	out := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME} {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}}})
	}
	return out, nil
}

// CreateVolume implements csi.ControllerServer. The id of a volume is its name.
func (d *driver) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	id := r.GetName()
	err := d.call("CreateVolume", id, func() error {
		data := d.of(id, "data")
		return errors.Join(os.MkdirAll(data, 0o755), os.Chmod(data, 0o1777), os.MkdirAll(d.of(id, "attached"), 0o755), os.MkdirAll(d.of(id, "has"), 0o755))
	})
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: id, CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}}, err
}

// DeleteVolume implements csi.ControllerServer.
func (d *driver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	id := r.GetVolumeId()
	return &csi.DeleteVolumeResponse{}, d.call("DeleteVolume", id, func() error {
		if on := d.nodes(id, "attached"); len(on) > 0 {
			return status.Errorf(codes.FailedPrecondition, "volume %q is attached to %v", id, on)
		}
		return os.RemoveAll(d.of(id))
	})
}

// ControllerPublishVolume implements csi.ControllerServer.
func (d *driver) ControllerPublishVolume(_ context.Context, r *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	id, node := r.GetVolumeId(), r.GetNodeId()
	one := strings.HasPrefix(r.GetVolumeCapability().GetAccessMode().GetMode().String(), "SINGLE_NODE")
	err := d.call("ControllerPublishVolume", id, func() error {
		return d.locked(id, func() error {
			for _, other := range d.nodes(id, "attached") {
				if other != node && one {
					return status.Errorf(codes.FailedPrecondition, "volume %q is attached to node %s", id, other)
				}
			}
			return os.WriteFile(d.of(id, "attached", node), nil, 0o600)
		})
	})
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{"node": node}}, err
}

// ControllerUnpublishVolume implements csi.ControllerServer. What a node that is lost still has
// of the volume, it has no access to any more.
func (d *driver) ControllerUnpublishVolume(_ context.Context, r *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	id, node := r.GetVolumeId(), r.GetNodeId()
	return &csi.ControllerUnpublishVolumeResponse{}, d.call("ControllerUnpublishVolume", id, func() error {
		err := d.locked(id, func() error { return errors.Join(gone(d.of(id, "attached", node)), gone(d.of(id, "has", node))) })
		if status.Code(err) == codes.NotFound {
			return nil
		}
		return err
	})
}

func gone(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// NodeGetInfo implements csi.NodeServer.
func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

// NodeGetCapabilities implements csi.NodeServer.
func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{{Type: &csi.NodeServiceCapability_Rpc{
		Rpc: &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME},
	}}}}, nil
}

// NodeStageVolume implements csi.NodeServer.
func (d *driver) NodeStageVolume(_ context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	id := r.GetVolumeId()
	return &csi.NodeStageVolumeResponse{}, d.call("NodeStageVolume", id, func() error {
		return d.locked(id, func() error {
			if _, err := os.Stat(d.of(id, "attached", d.node)); err != nil || r.GetPublishContext()["node"] != d.node {
				return status.Errorf(codes.FailedPrecondition, "volume %q is not attached to node %s: %v", id, d.node, err)
			}
			for _, other := range d.nodes(id, "has") {
				if other != d.node && strings.HasPrefix(r.GetVolumeCapability().GetAccessMode().GetMode().String(), "SINGLE_NODE") {
					d.log("WRONG", id, "node "+other+" has it")
				}
			}
			return errors.Join(os.WriteFile(d.of(id, "has", d.node), nil, 0o600), bind(d.of(id, "data"), r.GetStagingTargetPath()))
		})
	})
}

// NodeUnstageVolume implements csi.NodeServer.
func (d *driver) NodeUnstageVolume(_ context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	id := r.GetVolumeId()
	return &csi.NodeUnstageVolumeResponse{}, d.call("NodeUnstageVolume", id, func() error {
		return errors.Join(clear(r.GetStagingTargetPath()), gone(d.of(id, "has", d.node)))
	})
}

// NodePublishVolume implements csi.NodeServer.
func (d *driver) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	return &csi.NodePublishVolumeResponse{}, d.call("NodePublishVolume", r.GetVolumeId(), func() error {
		if there, err := mountinfo.Mounted(r.GetStagingTargetPath()); err != nil || !there {
			return status.Errorf(codes.FailedPrecondition, "volume %q is not staged: %v", r.GetVolumeId(), err)
		}
		return bind(r.GetStagingTargetPath(), r.GetTargetPath())
	})
}

// NodeUnpublishVolume implements csi.NodeServer.
func (d *driver) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	return &csi.NodeUnpublishVolumeResponse{}, d.call("NodeUnpublishVolume", r.GetVolumeId(), func() error {
		return errors.Join(clear(r.GetTargetPath()), gone(r.GetTargetPath()))
	})
}

// bind mounts a directory at a path, unless something is there.
func bind(from, to string) error {
	if err := os.MkdirAll(to, 0o750); err != nil {
		return err
	}
	if there, err := mountinfo.Mounted(to); err != nil || there {
		return err
	}
	return unix.Mount(from, to, "", unix.MS_BIND, "")
}

// clear unmounts everything at a path.
func clear(path string) error {
	for {
		err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
		switch {
		case errors.Is(err, syscall.EINVAL), errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
}
