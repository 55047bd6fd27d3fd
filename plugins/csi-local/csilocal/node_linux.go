// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csilocal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// nodeState is where a volume is on this node, or is about to be: it is stored before
// anything is mounted, and what is mounted counts. After a reboot nothing is.
type nodeState struct {
	Staging string               `json:",omitempty"`
	Options string               `json:",omitempty"` // with which it is staged
	Targets map[string]published `json:",omitempty"` // by path
}

type published struct {
	Mode     csi.VolumeCapability_AccessMode_Mode
	ReadOnly bool `json:",omitempty"`
}

// onNode returns where a volume is. What a reboot has taken away is left out.
func (d *Driver) onNode(id string) (*nodeState, error) {
	n := &nodeState{}
	err := readJSON(filepath.Join(d.folder(id), nodeFile), n)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if n.Targets == nil {
		n.Targets = map[string]published{}
	}
	return n, nil
}

func (d *Driver) setOnNode(id string, n *nodeState) error {
	return writeJSON(filepath.Join(d.folder(id), nodeFile), n)
}

// isMounted reports whether something is mounted at a path.
func isMounted(path string) (bool, error) {
	there, err := mountinfo.Mounted(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look what is mounted: %w", err)
	}
	return there, nil
}

// prune forgets targets where nothing is mounted.
func (n *nodeState) prune() error {
	for path := range n.Targets {
		there, err := isMounted(path)
		if err != nil {
			return err
		}
		if !there {
			delete(n.Targets, path)
		}
	}
	return nil
}

// isStaged reports whether a volume is staged.
func (d *Driver) isStaged(m *volumeMeta, n *nodeState) (bool, error) {
	if n.Staging == "" {
		return false, nil
	}
	if m.Kind == kindLoop && m.FSType == "" {
		all, err := devices(d.disk(m.ID))
		return len(all) > 0, err
	}
	return isMounted(n.Staging)
}

// inUse reports whether anything of a volume is on this node.
func (d *Driver) inUse(id string) (bool, error) {
	m := d.volume(id)
	if m == nil {
		return false, nil
	}
	n, err := d.onNode(id)
	if err != nil {
		return false, err
	}
	if err := n.prune(); err != nil || len(n.Targets) > 0 {
		return true, err
	}
	return d.isStaged(m, n)
}

// NodeGetCapabilities implements csi.NodeServer.
func (d *Driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	out := &csi.NodeGetCapabilitiesResponse{}
	for _, t := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csi.NodeServiceCapability_RPC_GET_VOLUME_STATS, csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_VOLUME_CONDITION, csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER, csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP,
	} {
		out.Capabilities = append(out.Capabilities, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}}})
	}
	return out, nil
}

// NodeGetInfo implements csi.NodeServer.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.cfg.NodeID, MaxVolumesPerNode: d.cfg.MaxVolumes, AccessibleTopology: d.topology()}, nil
}

// begin checks what all calls about a volume at a path need, and takes the volume. m is nil if
// there is no such volume.
func (d *Driver) begin(id, path string) (m *volumeMeta, end func(), err error) {
	if id == "" || !filepath.IsAbs(path) {
		return nil, nil, status.Error(codes.InvalidArgument, "the id of the volume or an absolute path is missing")
	}
	end, err = d.busy.take(id)
	if err != nil {
		return nil, nil, err
	}
	return d.volume(id), end, nil
}

// NodeStageVolume implements csi.NodeServer.
func (d *Driver) NodeStageVolume(ctx context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	path := r.GetStagingTargetPath()
	m, end, err := d.begin(r.GetVolumeId(), path)
	if err != nil {
		return nil, err
	}
	defer end()
	if r.GetVolumeCapability() == nil {
		return nil, status.Error(codes.InvalidArgument, "the capability of the volume is missing")
	}
	if m == nil {
		return nil, status.Errorf(codes.NotFound, "there is no volume %q", r.GetVolumeId())
	}
	if problem := m.suits([]*csi.VolumeCapability{r.GetVolumeCapability()}); problem != "" {
		return nil, status.Error(codes.InvalidArgument, problem)
	}
	return &csi.NodeStageVolumeResponse{}, failed("stage the volume", d.stage(ctx, m, path, r.GetVolumeCapability().GetMount()))
}

func (d *Driver) stage(ctx context.Context, m *volumeMeta, path string, how *csi.VolumeCapability_MountVolume) error {
	options := strings.Join(how.GetMountFlags(), ",")
	n, err := d.onNode(m.ID)
	if err != nil {
		return err
	}
	staged, err := d.isStaged(m, n)
	if err != nil {
		return err
	}
	switch {
	case staged && n.Staging != path:
		return status.Errorf(codes.FailedPrecondition, "the volume is staged at %s", n.Staging)
	case staged && n.Options != options:
		return status.Errorf(codes.AlreadyExists, "the volume is staged with other mount flags")
	case !staged:
		if err := d.checkNumber(); err != nil {
			return err
		}
	}
	if err := n.prune(); err != nil {
		return err
	}
	n.Staging, n.Options = path, options
	if err := d.setOnNode(m.ID, n); err != nil {
		return err
	}
	if !staged {
		if err := d.bringUp(ctx, m, path, options); err != nil {
			return errors.Join(err, d.takeDown(m, path))
		}
	}
	if err := giveTo(path, how.GetVolumeMountGroup()); err != nil {
		return err
	}
	return openToAll(path)
}

// checkNumber refuses one more volume on a node that has its maximum.
func (d *Driver) checkNumber() error {
	if d.cfg.MaxVolumes == 0 {
		return nil
	}
	d.mu.Lock()
	all := make([]string, 0, len(d.volumes))
	for id := range d.volumes {
		all = append(all, id)
	}
	d.mu.Unlock()
	count := int64(0)
	for _, id := range all {
		if used, err := d.inUse(id); err == nil && used {
			count++
		}
	}
	if count >= d.cfg.MaxVolumes {
		return status.Errorf(codes.ResourceExhausted, "this node has %d volumes, which is the maximum", count)
	}
	return nil
}

// NodeUnstageVolume implements csi.NodeServer.
func (d *Driver) NodeUnstageVolume(_ context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	path := r.GetStagingTargetPath()
	m, end, err := d.begin(r.GetVolumeId(), path)
	if err != nil {
		return nil, err
	}
	defer end()
	return &csi.NodeUnstageVolumeResponse{}, failed("unstage the volume", d.unstage(m, r.GetVolumeId(), path))
}

func (d *Driver) unstage(m *volumeMeta, id, path string) error {
	if m == nil {
		return unknown(id, path)
	}
	n, err := d.onNode(id)
	if err != nil {
		return err
	}
	if n.Staging != path {
		return unknown(id, path)
	}
	if err := n.prune(); err != nil {
		return err
	}
	if len(n.Targets) > 0 {
		return status.Errorf(codes.FailedPrecondition, "volume %q is published at %d paths", id, len(n.Targets))
	}
	if err := d.takeDown(m, path); err != nil {
		return err
	}
	n.Staging, n.Options = "", ""
	return d.setOnNode(id, n)
}

// unknown is the outcome of a reverse call for what this driver has not put there.
func unknown(id, path string) error {
	there, err := isMounted(path)
	if err == nil && there {
		err = status.Errorf(codes.NotFound, "this driver has not put volume %q at %s, where something is mounted", id, path)
	}
	return err
}

// NodePublishVolume implements csi.NodeServer.
func (d *Driver) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	m, end, err := d.begin(r.GetVolumeId(), r.GetTargetPath())
	if err != nil {
		return nil, err
	}
	defer end()
	switch {
	case r.GetVolumeCapability() == nil:
		return nil, status.Error(codes.InvalidArgument, "the capability of the volume is missing")
	case r.GetStagingTargetPath() == "":
		return nil, status.Error(codes.FailedPrecondition, "the staging path is missing")
	case m == nil:
		return nil, status.Errorf(codes.NotFound, "there is no volume %q", r.GetVolumeId())
	}
	if problem := m.suits([]*csi.VolumeCapability{r.GetVolumeCapability()}); problem != "" {
		return nil, status.Error(codes.InvalidArgument, problem)
	}
	return &csi.NodePublishVolumeResponse{}, failed("publish the volume", d.publish(m, r))
}

func (d *Driver) publish(m *volumeMeta, r *csi.NodePublishVolumeRequest) error {
	path := r.GetTargetPath()
	n, err := d.onNode(m.ID)
	if err != nil {
		return err
	}
	staged, err := d.isStaged(m, n)
	if err != nil {
		return err
	}
	if !staged || n.Staging != r.GetStagingTargetPath() {
		return status.Errorf(codes.FailedPrecondition, "the volume is not staged at %s", r.GetStagingTargetPath())
	}
	if err := n.prune(); err != nil {
		return err
	}
	want := published{Mode: r.GetVolumeCapability().GetAccessMode().GetMode(), ReadOnly: r.GetReadonly()}
	if now, there := n.Targets[path]; there {
		if now != want {
			return status.Errorf(codes.AlreadyExists, "the volume is published at %s in another way", path)
		}
		return nil
	}
	if len(n.Targets) > 0 && want.Mode != csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER {
		return status.Errorf(codes.FailedPrecondition, "the volume is published elsewhere on this node, and its access mode allows one path")
	}
	switch there, err := isMounted(path); {
	case err != nil:
		return err
	case there:
		return status.Errorf(codes.FailedPrecondition, "something else is mounted at %s", path)
	}
	n.Targets[path] = want
	if err := d.setOnNode(m.ID, n); err != nil {
		return err
	}
	return d.bindTo(m, n.Staging, path, want.ReadOnly)
}

func (d *Driver) bindTo(m *volumeMeta, staging, path string, readOnly bool) error {
	if m.Kind != kindLoop || m.FSType != "" {
		if err := os.MkdirAll(path, 0o750); err != nil {
			return fmt.Errorf("make the target path: %w", err)
		}
		return bind(staging, path, readOnly)
	}
	all, err := devices(d.disk(m.ID))
	if err != nil || len(all) == 0 {
		return errors.Join(err, errors.New("the volume has no device"))
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make the target path: %w", err)
	}
	_ = f.Close() // nothing was written
	return bind(all[0], path, readOnly)
}

// NodeUnpublishVolume implements csi.NodeServer.
func (d *Driver) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	m, end, err := d.begin(r.GetVolumeId(), r.GetTargetPath())
	if err != nil {
		return nil, err
	}
	defer end()
	return &csi.NodeUnpublishVolumeResponse{}, failed("unpublish the volume", d.unpublish(m, r.GetVolumeId(), r.GetTargetPath()))
}

func (d *Driver) unpublish(m *volumeMeta, id, path string) error {
	if m == nil {
		return unknown(id, path)
	}
	n, err := d.onNode(id)
	if err != nil {
		return err
	}
	if _, ours := n.Targets[path]; !ours {
		return unknown(id, path)
	}
	if err := clear(path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the target path: %w", err)
	}
	delete(n.Targets, path)
	return d.setOnNode(id, n)
}

// at returns a volume that is at a path of this node.
func (d *Driver) at(id, path string) (*volumeMeta, *nodeState, error) {
	if id == "" || path == "" {
		return nil, nil, status.Error(codes.InvalidArgument, "the id of the volume or its path is missing")
	}
	m := d.volume(id)
	if m == nil {
		return nil, nil, status.Errorf(codes.NotFound, "there is no volume %q", id)
	}
	n, err := d.onNode(id)
	if err != nil {
		return nil, nil, failed("look where the volume is", err)
	}
	if _, there := n.Targets[path]; !there && n.Staging != path {
		return nil, nil, status.Errorf(codes.NotFound, "volume %q is not at %s", id, path)
	}
	return m, n, nil
}

// NodeGetVolumeStats implements csi.NodeServer.
func (d *Driver) NodeGetVolumeStats(_ context.Context, r *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	m, _, err := d.at(r.GetVolumeId(), r.GetVolumePath())
	if err != nil {
		return nil, err
	}
	out := &csi.NodeGetVolumeStatsResponse{VolumeCondition: d.condition(m)}
	if m.Kind == kindLoop && m.FSType == "" {
		all, err := devices(d.disk(m.ID))
		if err != nil || len(all) == 0 {
			return nil, status.Errorf(codes.NotFound, "volume %q has no device on this node", m.ID)
		}
		size, err := sizeOf(all[0])
		if err != nil {
			return nil, failed("measure the volume", err)
		}
		out.Usage = []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: size}}
		return out, nil
	}
	if there, err := isMounted(r.GetVolumePath()); err != nil || !there {
		return nil, status.Errorf(codes.NotFound, "volume %q is not mounted at %s", m.ID, r.GetVolumePath())
	}
	var st unix.Statfs_t
	if err := unix.Statfs(r.GetVolumePath(), &st); err != nil {
		return nil, failed("measure the volume", err)
	}
	out.Usage = []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: int64(st.Blocks) * st.Bsize, Used: int64(st.Blocks-st.Bfree) * st.Bsize, Available: int64(st.Bavail) * st.Bsize},
		{Unit: csi.VolumeUsage_INODES, Total: int64(st.Files), Used: int64(st.Files - st.Ffree), Available: int64(st.Ffree)},
	}
	return out, nil
}

// NodeExpandVolume implements csi.NodeServer.
func (d *Driver) NodeExpandVolume(ctx context.Context, r *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	m, n, err := d.at(r.GetVolumeId(), r.GetVolumePath())
	if err != nil {
		return nil, err
	}
	end, err := d.busy.take(m.ID)
	if err != nil {
		return nil, err
	}
	defer end()
	if m.Kind == kindLoop {
		if err := d.growAt(ctx, m, n.Staging); err != nil {
			return nil, failed("expand the volume", err)
		}
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: m.Capacity}, nil
}
