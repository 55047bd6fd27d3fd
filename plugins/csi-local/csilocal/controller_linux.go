// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csilocal

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Sizes of volumes in bytes.
const (
	defaultSize = 1 << 30
	minExt4     = 4 << 20
	minXFS      = 300 << 20 // mkfs.xfs makes no smaller ones
	minDevice   = 1 << 20
	maxSize     = 1 << 50
	roundTo     = 4 << 10
)

// maxName is the largest number of bytes of a name, as CSI limits it.
const maxName = 128

// ControllerGetCapabilities implements csi.ControllerServer.
func (d *Driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	out := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY, csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS, csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME, csi.ControllerServiceCapability_RPC_GET_VOLUME,
		csi.ControllerServiceCapability_RPC_VOLUME_CONDITION, csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}}})
	}
	return out, nil
}

// wanted is what a request asks of a volume.
type wanted struct {
	kind, fsType string
	least, most  int64 // bytes; 0 means any
}

// singleNode are the access modes of volumes that one node has.
var singleNode = []csi.VolumeCapability_AccessMode_Mode{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER,
}

// want reads capabilities and parameters. problem says what is wrong with them; "" means
// nothing.
func want(caps []*csi.VolumeCapability, parameters map[string]string) (w wanted, problem string) {
	w.kind = kindLoop
	standard := "ext4"
	for key, value := range parameters {
		switch {
		case key == "kind" && (value == kindLoop || value == kindDirectory):
			w.kind = value
		case key == "fs_type" && (value == "ext4" || value == "xfs"):
			standard = value
		default:
			return w, fmt.Sprintf("parameter %q = %q is not known; there are kind (%s or %s) and fs_type (ext4 or xfs)", key, value, kindLoop, kindDirectory)
		}
	}
	if len(caps) == 0 {
		return w, "volume capabilities are missing"
	}
	block, mount := false, false
	for _, c := range caps {
		if !slices.Contains(singleNode, c.GetAccessMode().GetMode()) {
			return w, "a volume on the disk of one machine cannot have access mode " + c.GetAccessMode().GetMode().String()
		}
		switch {
		case c.GetBlock() != nil:
			block = true
		case c.GetMount() != nil:
			mount = true
			fs := c.GetMount().GetFsType()
			if fs != "" && w.fsType != "" && fs != w.fsType {
				return w, "a volume cannot be both " + fs + " and " + w.fsType
			}
			if fs != "" {
				w.fsType = fs
			}
		default:
			return w, "a capability has no access type"
		}
	}
	switch {
	case block && mount:
		return w, "a volume is used either as a block device or as a file system"
	case w.kind == kindDirectory && (block || w.fsType != ""):
		return w, "a volume of kind directory is no block device, and its file system is that of the machine"
	case w.kind == kindLoop && mount && w.fsType == "":
		w.fsType = standard
	}
	if w.fsType != "" && w.fsType != "ext4" && w.fsType != "xfs" {
		return w, "file system \"" + w.fsType + "\" is neither ext4 nor xfs"
	}
	return w, ""
}

// size returns the capacity of a new volume, which has at least the size of its source.
func (w *wanted) size(source int64) (int64, error) {
	if w.least < 0 || w.most < 0 || w.most > 0 && w.least > w.most || w.least > maxSize {
		return 0, status.Errorf(codes.OutOfRange, "a volume of at least %d and at most %d bytes cannot be made", w.least, w.most)
	}
	if w.kind == kindDirectory {
		return max(w.least, source), nil // recorded only: nothing limits a directory
	}
	size := max(w.least, source, map[string]int64{"ext4": minExt4, "xfs": minXFS, "": minDevice}[w.fsType])
	if w.least == 0 && source == 0 {
		size = max(size, defaultSize)
		if w.most > 0 && size > w.most {
			size = w.most / roundTo * roundTo
		}
	}
	size = (size + roundTo - 1) / roundTo * roundTo
	if w.most > 0 && size > w.most || size < map[string]int64{"ext4": minExt4, "xfs": minXFS, "": minDevice}[w.fsType] {
		return 0, status.Errorf(codes.OutOfRange, "the volume needs %d bytes, and may have %d", size, w.most)
	}
	return size, nil
}

// CreateVolume implements csi.ControllerServer.
func (d *Driver) CreateVolume(ctx context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if r.GetName() == "" || len(r.GetName()) > maxName {
		return nil, status.Errorf(codes.InvalidArgument, "a volume needs a name of 1 to %d bytes", maxName)
	}
	w, problem := want(r.GetVolumeCapabilities(), r.GetParameters())
	if problem != "" {
		return nil, status.Error(codes.InvalidArgument, problem)
	}
	w.least, w.most = r.GetCapacityRange().GetRequiredBytes(), r.GetCapacityRange().GetLimitBytes()
	if req := r.GetAccessibilityRequirements().GetRequisite(); len(req) > 0 && !slices.ContainsFunc(req, d.here) {
		return nil, status.Errorf(codes.ResourceExhausted, "this driver makes volumes at %s=%s only", topologyKey, d.cfg.NodeID)
	}
	things := []string{"name " + r.GetName()}
	if id := r.GetVolumeContentSource().GetVolume().GetVolumeId(); id != "" {
		things = append(things, id)
	}
	if id := r.GetVolumeContentSource().GetSnapshot().GetSnapshotId(); id != "" {
		things = append(things, id)
	}
	end, err := d.busy.take(things...)
	if err != nil {
		return nil, err
	}
	defer end()
	source, err := d.source(r.GetVolumeContentSource())
	if err != nil {
		return nil, err
	}
	size, err := w.size(source.capacity)
	if err != nil {
		return nil, err
	}
	if m := d.named(r.GetName()); m != nil {
		if !m.fits(&w, &source) {
			return nil, status.Errorf(codes.AlreadyExists, "volume %q is another one: %s %s of %d bytes", m.Name, m.Kind, m.FSType, m.Capacity)
		}
		return &csi.CreateVolumeResponse{Volume: d.volumeOf(m)}, nil
	}
	if source.path != "" && (source.kind != w.kind || source.fsType != w.fsType) {
		return nil, status.Errorf(codes.InvalidArgument, "a volume that begins with one of kind %s (%s) cannot be of kind %s (%s)", source.kind, source.fsType, w.kind, w.fsType)
	}
	m, err := d.makeVolume(ctx, r.GetName(), &w, size, &source)
	if err != nil {
		return nil, failed("make the volume", err)
	}
	return &csi.CreateVolumeResponse{Volume: d.volumeOf(m)}, nil
}

// source is what a volume begins with.
type source struct {
	path             string // "" if it is empty
	kind, fsType     string
	capacity         int64
	snapshot, volume string
}

func (d *Driver) source(c *csi.VolumeContentSource) (source, error) {
	switch {
	case c == nil:
		return source{}, nil
	case c.GetSnapshot() != nil:
		id := c.GetSnapshot().GetSnapshotId()
		m := d.snapshot(id)
		if m == nil {
			return source{}, status.Errorf(codes.NotFound, "there is no snapshot %q", id)
		}
		return source{path: filepath.Join(d.snapshotsDir(), id), kind: m.Kind, fsType: m.FSType, capacity: m.Capacity, snapshot: id}, nil
	default:
		id := c.GetVolume().GetVolumeId()
		m := d.volume(id)
		if m == nil {
			return source{}, status.Errorf(codes.NotFound, "there is no volume %q", id)
		}
		return source{path: d.folder(id), kind: m.Kind, fsType: m.FSType, capacity: m.Capacity, volume: id}, nil
	}
}

func (d *Driver) named(name string) *volumeMeta {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.volumes[d.names[name]]
}

// fits reports whether a volume is what is asked for.
func (m *volumeMeta) fits(w *wanted, s *source) bool {
	return m.Kind == w.kind && m.FSType == w.fsType && m.Snapshot == s.snapshot && m.Volume == s.volume &&
		(m.Capacity >= w.least && (w.most == 0 || m.Capacity <= w.most))
}

func (d *Driver) makeVolume(ctx context.Context, name string, w *wanted, size int64, s *source) (*volumeMeta, error) {
	id, err := newID()
	if err != nil {
		return nil, err
	}
	if w.kind == kindLoop {
		if err := d.checkSpace(size); err != nil {
			return nil, err
		}
	}
	m := &volumeMeta{ID: id, Name: name, Kind: w.kind, FSType: w.fsType, Capacity: size, Snapshot: s.snapshot, Volume: s.volume, Created: time.Now().UTC()}
	err = d.makeWhole(d.folder(id), func(aside string) error {
		if s.path != "" {
			if err := d.copyContent(ctx, s, aside); err != nil {
				return err
			}
		}
		if err := fill(ctx, aside, m, s.path != ""); err != nil {
			return err
		}
		return writeJSON(filepath.Join(aside, metaFile), m)
	})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.volumes[id], d.names[name] = m, id
	return m, nil
}

func (d *Driver) here(t *csi.Topology) bool { return t.GetSegments()[topologyKey] == d.cfg.NodeID }

func (d *Driver) topology() *csi.Topology {
	return &csi.Topology{Segments: map[string]string{topologyKey: d.cfg.NodeID}}
}

func (d *Driver) volumeOf(m *volumeMeta) *csi.Volume {
	out := &csi.Volume{VolumeId: m.ID, CapacityBytes: m.Capacity, AccessibleTopology: []*csi.Topology{d.topology()}}
	switch {
	case m.Snapshot != "":
		out.ContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: m.Snapshot}}}
	case m.Volume != "":
		out.ContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: m.Volume}}}
	}
	return out
}

// DeleteVolume implements csi.ControllerServer.
func (d *Driver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	id := r.GetVolumeId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "the id of the volume is missing")
	}
	end, err := d.busy.take(id)
	if err != nil {
		return nil, err
	}
	defer end()
	m := d.volume(id)
	if m == nil {
		return &csi.DeleteVolumeResponse{}, nil
	}
	used, err := d.inUse(id)
	if err != nil {
		return nil, failed("look whether the volume is in use", err)
	}
	if used {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %q is in use", id)
	}
	if err := d.remove(d.folder(id)); err != nil {
		return nil, failed("remove the volume", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.volumes, id)
	delete(d.names, m.Name)
	return &csi.DeleteVolumeResponse{}, nil
}

// ValidateVolumeCapabilities implements csi.ControllerServer.
func (d *Driver) ValidateVolumeCapabilities(_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if r.GetVolumeId() == "" || len(r.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "the id of the volume or its capabilities are missing")
	}
	m := d.volume(r.GetVolumeId())
	if m == nil {
		return nil, status.Errorf(codes.NotFound, "there is no volume %q", r.GetVolumeId())
	}
	if problem := m.suits(r.GetVolumeCapabilities()); problem != "" {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: problem}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: r.GetVolumeContext(), VolumeCapabilities: r.GetVolumeCapabilities(), Parameters: r.GetParameters(),
	}}, nil
}

// suits says why a volume cannot be used in some ways; "" if it can.
func (m *volumeMeta) suits(caps []*csi.VolumeCapability) string {
	w, problem := want(caps, map[string]string{"kind": m.Kind, "fs_type": cmp.Or(m.FSType, "ext4")})
	switch {
	case problem != "":
		return problem
	case m.Kind == kindLoop && (m.FSType == "") != (w.fsType == ""):
		return "the volume is a block device or a file system, and not both"
	case m.FSType != w.fsType:
		return "the file system of the volume is " + m.FSType
	}
	return ""
}

// GetCapacity implements csi.ControllerServer.
func (d *Driver) GetCapacity(_ context.Context, r *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	if t := r.GetAccessibleTopology(); t != nil && len(t.GetSegments()) > 0 && !d.here(t) {
		return &csi.GetCapacityResponse{}, nil
	}
	if len(r.GetVolumeCapabilities()) > 0 {
		if _, problem := want(r.GetVolumeCapabilities(), r.GetParameters()); problem != "" {
			return &csi.GetCapacityResponse{}, nil
		}
	}
	free, err := d.free()
	if err != nil {
		return nil, failed("look for free space", err)
	}
	return &csi.GetCapacityResponse{AvailableCapacity: free}, nil
}

// ListVolumes implements csi.ControllerServer.
func (d *Driver) ListVolumes(_ context.Context, r *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	d.mu.Lock()
	ids := slices.Sorted(maps.Keys(d.volumes))
	d.mu.Unlock()
	ids, next, err := page(ids, r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	out := &csi.ListVolumesResponse{NextToken: next}
	for _, id := range ids {
		if m := d.volume(id); m != nil {
			out.Entries = append(out.Entries, &csi.ListVolumesResponse_Entry{Volume: d.volumeOf(m), Status: &csi.ListVolumesResponse_VolumeStatus{VolumeCondition: d.condition(m)}})
		}
	}
	return out, nil
}

// page returns the ids after a token, which is the last id of the page before.
func page(ids []string, token string, limit int32) (some []string, next string, err error) {
	if limit < 0 {
		return nil, "", status.Error(codes.InvalidArgument, "the number of entries is below zero")
	}
	if token != "" {
		if !isID(token) {
			return nil, "", status.Errorf(codes.Aborted, "%q is no place in this list; begin anew", token)
		}
		at, found := slices.BinarySearch(ids, token)
		if found {
			at++
		}
		ids = ids[at:]
	}
	if limit > 0 && len(ids) > int(limit) {
		ids = ids[:limit]
		next = ids[limit-1]
	}
	return ids, next, nil
}

// ControllerGetVolume implements csi.ControllerServer.
func (d *Driver) ControllerGetVolume(_ context.Context, r *csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
	if r.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the id of the volume is missing")
	}
	m := d.volume(r.GetVolumeId())
	if m == nil {
		return nil, status.Errorf(codes.NotFound, "there is no volume %q", r.GetVolumeId())
	}
	return &csi.ControllerGetVolumeResponse{Volume: d.volumeOf(m), Status: &csi.ControllerGetVolumeResponse_VolumeStatus{VolumeCondition: d.condition(m)}}, nil
}

// condition says whether a volume's files are there.
func (d *Driver) condition(m *volumeMeta) *csi.VolumeCondition {
	path := d.disk(m.ID)
	if m.Kind == kindDirectory {
		path = filepath.Join(d.folder(m.ID), dataDir)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return &csi.VolumeCondition{Abnormal: true, Message: "its content is gone: " + err.Error()}
	case m.Kind == kindLoop && info.Size() < m.Capacity:
		return &csi.VolumeCondition{Abnormal: true, Message: "its file is shorter than the volume"}
	}
	return &csi.VolumeCondition{Message: "its content is there"}
}

// ControllerExpandVolume implements csi.ControllerServer. The file grows at once; what a
// node has of it grows with NodeExpandVolume, or when it is staged.
func (d *Driver) ControllerExpandVolume(_ context.Context, r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	id := r.GetVolumeId()
	if id == "" || r.GetCapacityRange() == nil {
		return nil, status.Error(codes.InvalidArgument, "the id of the volume or its new size is missing")
	}
	end, err := d.busy.take(id)
	if err != nil {
		return nil, err
	}
	defer end()
	m := d.volume(id)
	if m == nil {
		return nil, status.Errorf(codes.NotFound, "there is no volume %q", id)
	}
	w := wanted{kind: m.Kind, fsType: m.FSType, least: r.GetCapacityRange().GetRequiredBytes(), most: r.GetCapacityRange().GetLimitBytes()}
	size, err := w.size(m.Capacity)
	if err != nil {
		return nil, err
	}
	if size == m.Capacity {
		return &csi.ControllerExpandVolumeResponse{CapacityBytes: m.Capacity, NodeExpansionRequired: m.Kind == kindLoop}, nil
	}
	if m.Kind == kindLoop {
		err := d.checkSpace(size - m.Capacity)
		if err == nil {
			err = os.Truncate(d.disk(id), size)
		}
		if err != nil {
			return nil, failed("expand the volume", err)
		}
	}
	grown := *m
	grown.Capacity = size
	if err := writeJSON(filepath.Join(d.folder(id), metaFile), &grown); err != nil {
		return nil, failed("expand the volume", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.volumes[id] = &grown
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: size, NodeExpansionRequired: m.Kind == kindLoop}, nil
}
