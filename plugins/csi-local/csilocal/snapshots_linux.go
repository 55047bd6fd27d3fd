// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csilocal

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// CreateSnapshot implements csi.ControllerServer. The snapshot is a copy of its own, so that
// it and the volume do not depend on each other.
func (d *Driver) CreateSnapshot(ctx context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	name, id := r.GetName(), r.GetSourceVolumeId()
	switch {
	case name == "" || len(name) > maxName:
		return nil, status.Errorf(codes.InvalidArgument, "a snapshot needs a name of 1 to %d bytes", maxName)
	case id == "":
		return nil, status.Error(codes.InvalidArgument, "the id of the volume is missing")
	case len(r.GetParameters()) > 0:
		return nil, status.Error(codes.InvalidArgument, "snapshots have no parameters")
	}
	end, err := d.busy.take("snapshot "+name, id)
	if err != nil {
		return nil, err
	}
	defer end()
	d.mu.Lock()
	old := d.snapshots[d.snapNames[name]]
	d.mu.Unlock()
	if old != nil {
		if old.Volume != id {
			return nil, status.Errorf(codes.AlreadyExists, "snapshot %q is of volume %q", name, old.Volume)
		}
		return &csi.CreateSnapshotResponse{Snapshot: snapshotOf(old)}, nil
	}
	m := d.volume(id)
	if m == nil {
		return nil, status.Errorf(codes.NotFound, "there is no volume %q", id)
	}
	made, err := d.makeSnapshot(ctx, name, m)
	if err != nil {
		return nil, failed("make the snapshot", err)
	}
	return &csi.CreateSnapshotResponse{Snapshot: snapshotOf(made)}, nil
}

func (d *Driver) makeSnapshot(ctx context.Context, name string, m *volumeMeta) (*snapshotMeta, error) {
	id, err := newID()
	if err != nil {
		return nil, err
	}
	s := &snapshotMeta{ID: id, Name: name, Volume: m.ID, Kind: m.Kind, FSType: m.FSType, Capacity: m.Capacity, Created: time.Now().UTC()}
	err = d.makeWhole(filepath.Join(d.snapshotsDir(), id), func(aside string) error {
		if err := d.copyContent(ctx, &source{path: d.folder(m.ID), kind: m.Kind, fsType: m.FSType, volume: m.ID}, aside); err != nil {
			return err
		}
		return writeJSON(filepath.Join(aside, metaFile), s)
	})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.snapshots[id], d.snapNames[name] = s, id
	return s, nil
}

func snapshotOf(s *snapshotMeta) *csi.Snapshot {
	return &csi.Snapshot{SnapshotId: s.ID, SourceVolumeId: s.Volume, SizeBytes: s.Capacity, CreationTime: timestamppb.New(s.Created), ReadyToUse: true}
}

// DeleteSnapshot implements csi.ControllerServer.
func (d *Driver) DeleteSnapshot(_ context.Context, r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	id := r.GetSnapshotId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "the id of the snapshot is missing")
	}
	end, err := d.busy.take(id)
	if err != nil {
		return nil, err
	}
	defer end()
	s := d.snapshot(id)
	if s == nil {
		return &csi.DeleteSnapshotResponse{}, nil
	}
	if err := d.remove(filepath.Join(d.snapshotsDir(), id)); err != nil {
		return nil, failed("remove the snapshot", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.snapshots, id)
	delete(d.snapNames, s.Name)
	return &csi.DeleteSnapshotResponse{}, nil
}

// ListSnapshots implements csi.ControllerServer.
func (d *Driver) ListSnapshots(_ context.Context, r *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	d.mu.Lock()
	all := maps.Clone(d.snapshots)
	d.mu.Unlock()
	maps.DeleteFunc(all, func(id string, s *snapshotMeta) bool {
		return r.GetSnapshotId() != "" && id != r.GetSnapshotId() || r.GetSourceVolumeId() != "" && s.Volume != r.GetSourceVolumeId()
	})
	ids, next, err := page(slices.Sorted(maps.Keys(all)), r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	out := &csi.ListSnapshotsResponse{NextToken: next}
	for _, id := range ids {
		out.Entries = append(out.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: snapshotOf(all[id])})
	}
	return out, nil
}
