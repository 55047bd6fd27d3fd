// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-project/drover/sdk/errdefs"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

// Published implements volume.Volume.
func (p *Plugin) Published(context.Context) ([]volume.Publication, error) { return p.records.all() }

// note changes the record of a volume, whose lane the caller has.
func (p *Plugin) note(id string, change func(*record) error) error {
	r, err := p.records.get(id)
	if err == nil {
		err = change(r)
	}
	if err == nil {
		err = p.records.put(r)
	}
	return because(err)
}

// Stage implements volume.Stager.
func (p *Plugin) Stage(ctx context.Context, r volume.StageRequest) error {
	access, err := p.capability(r.Access)
	if err != nil {
		return err
	}
	return p.do(ctx, call{lane: r.ID, what: quoted("stage volume", r.ID), secrets: r.Secrets, try: func(ctx context.Context, c *conn, s *settings) error {
		path, err := s.toDriver(r.StagingPath)
		if err != nil {
			return because(err)
		}
		fresh := false
		err = p.note(r.ID, func(now *record) error {
			if now.Staging != "" && now.Staging != r.StagingPath {
				return errdefs.FailedPreconditionf("volume %q is staged at %s; unstage it there first", r.ID, now.Staging)
			}
			fresh, now.Staging = now.Staging == "", r.StagingPath
			return nil
		})
		if err != nil {
			return err
		}
		if err := os.MkdirAll(r.StagingPath, 0o700); err != nil {
			return because(fmt.Errorf("make the directory for the volume: %w", err))
		}
		_, err = c.node.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
			VolumeId: r.ID, PublishContext: r.PublishContext, StagingTargetPath: path, VolumeCapability: access, Secrets: r.Secrets, VolumeContext: r.Context,
		})
		if fresh {
			err = p.withdraw(err, r.ID, r.StagingPath, func(now *record) { now.Staging = "" })
		}
		return err
	}})
}

// Unstage implements volume.Stager.
func (p *Plugin) Unstage(ctx context.Context, id, stagingPath string) error {
	return p.do(ctx, call{lane: id, what: quoted("unstage volume", id), try: func(ctx context.Context, c *conn, s *settings) error {
		path, err := s.toDriver(stagingPath)
		if err != nil {
			return because(err)
		}
		now, err := p.records.get(id)
		if err != nil {
			return because(err)
		}
		if n := len(now.Targets); n > 0 {
			return because(errdefs.WithReason(errdefs.FailedPreconditionf("it is still published at %d paths; unpublish it there first", n), volume.ReasonInUse))
		}
		_, err = c.node.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: path})
		if err := released(err, stagingPath); err != nil {
			return err
		}
		return p.note(id, func(now *record) error {
			if now.Staging == stagingPath {
				now.Staging = ""
			}
			return nil
		})
	}})
}

// Publish implements volume.Volume.
func (p *Plugin) Publish(ctx context.Context, r volume.PublishRequest) error {
	access, err := p.capability(r.Access)
	if err != nil {
		return err
	}
	return p.do(ctx, call{precondition: volume.ReasonNotStaged, lane: r.ID, what: quoted("publish volume", r.ID), secrets: r.Secrets, try: func(ctx context.Context, c *conn, s *settings) error {
		staging, err := s.toDriver(r.StagingPath)
		if err != nil {
			return because(err)
		}
		path, err := s.toDriver(r.TargetPath)
		if err != nil {
			return because(err)
		}
		fresh := false
		err = p.note(r.ID, func(now *record) error {
			want := target{Mode: r.Access.Mode, ReadOnly: r.ReadOnly}
			if err := now.admit(r.TargetPath, want); err != nil {
				return err
			}
			_, there := now.Targets[r.TargetPath]
			fresh, now.Targets[r.TargetPath] = !there, want
			return nil
		})
		if err != nil {
			return err
		}
		_, err = c.node.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
			VolumeId: r.ID, PublishContext: r.PublishContext, StagingTargetPath: staging, TargetPath: path, VolumeCapability: access,
			Readonly: r.ReadOnly, Secrets: r.Secrets, VolumeContext: r.Context,
		})
		if fresh {
			err = p.withdraw(err, r.ID, r.TargetPath, func(now *record) { delete(now.Targets, r.TargetPath) })
		}
		if err == nil && s.VerifyMounts {
			err = arrived(r.TargetPath)
		}
		return err
	}})
}

// arrived says why a volume that the driver has published is not on this machine. Tasks
// would write to the directory below it, and lose what they wrote.
func arrived(path string) error {
	there, err := mounted(path)
	switch {
	case err != nil:
		return because(err)
	case !there:
		return because(errdefs.FailedPreconditionf("the driver says that it is published, and nothing is mounted at %s: "+
			"mounts of the driver do not reach this machine (a driver in a container needs bidirectional propagation), or it is defective", path))
	}
	return nil
}

// Unpublish implements volume.Volume.
func (p *Plugin) Unpublish(ctx context.Context, id, targetPath string) error {
	return p.do(ctx, call{lane: id, what: quoted("unpublish volume", id), try: func(ctx context.Context, c *conn, s *settings) error {
		path, err := s.toDriver(targetPath)
		if err != nil {
			return because(err)
		}
		_, err = c.node.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: path})
		if err := released(err, targetPath); err != nil {
			return err
		}
		if err := os.Remove(targetPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return because(errdefs.FailedPreconditionf("remove where the volume was: %w", err))
		}
		return p.note(id, func(now *record) error {
			delete(now.Targets, targetPath)
			return nil
		})
	}})
}

// maxLayers is the largest number of mounts at one path that are unmounted: drivers that were
// killed between a mount and its record have mounted again.
const maxLayers = 16

// released returns nil if nothing is mounted at the path any more, after the driver has
// answered with err. A driver that says that it is done, or that it does not know the volume,
// will never unmount what is left, so it is done here.
func released(err error, path string) error {
	if err = unlessGone(err); err != nil {
		return err
	}
	for range maxLayers {
		there, err := mounted(path)
		if err != nil {
			return because(err)
		}
		if !there {
			return nil
		}
		if err := unmount(path); err != nil {
			return because(errdefs.WithReason(errdefs.FailedPreconditionf("the driver is done, and what is still mounted at %s cannot be unmounted: %w", path, err), volume.ReasonInUse))
		}
	}
	return defective("it is done, and more than %d mounts are left at %s", maxLayers, path)
}

// refused reports whether a driver has answered that it did nothing, and will not.
func refused(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated, codes.ResourceExhausted:
		return true
	default:
		return false
	}
}

// withdraw takes back what was noted for a call that the driver has refused, unless the
// machine has something of it all the same.
func (p *Plugin) withdraw(err error, id, path string, change func(*record)) error {
	if !refused(err) {
		return err
	}
	if there, looked := mounted(path); there || looked != nil {
		return err
	}
	_ = p.note(id, func(now *record) error { // what stays noted is taken back by the reverse call
		change(now)
		return nil
	})
	return err
}

// NodeExpand implements volume.NodeExpander.
func (p *Plugin) NodeExpand(ctx context.Context, r volume.NodeExpandRequest) (int64, error) {
	size, err := rangeOf(r.Capacity)
	if err != nil {
		return 0, err
	}
	req := &csi.NodeExpandVolumeRequest{VolumeId: r.ID, CapacityRange: size, Secrets: r.Secrets}
	if r.Access.Mode != "" {
		if req.VolumeCapability, err = p.capability(r.Access); err != nil {
			return 0, err
		}
	}
	var got int64
	err = p.do(ctx, call{lane: r.ID, what: quoted("expand volume", r.ID), secrets: r.Secrets, try: func(ctx context.Context, c *conn, s *settings) (err error) {
		if req.VolumePath, err = s.toDriver(r.Path); err != nil {
			return because(err)
		}
		if req.StagingTargetPath, err = s.toDriver(r.StagingPath); err != nil {
			return because(err)
		}
		resp, err := c.node.NodeExpandVolume(ctx, req)
		if err != nil {
			return err
		}
		got = resp.GetCapacityBytes()
		return checkSize(got, r.Capacity)
	}})
	return got, reasoned(err, codes.NotFound, volume.ReasonNoVolume)
}

// Stats implements volume.Meter.
func (p *Plugin) Stats(ctx context.Context, r volume.StatsRequest) (*volume.Stats, error) {
	out := &volume.Stats{}
	err := p.read(ctx, call{what: quoted("measure volume", r.ID), try: func(ctx context.Context, c *conn, s *settings) error {
		path, err := s.toDriver(r.Path)
		if err != nil {
			return because(err)
		}
		staging, err := s.toDriver(r.StagingPath)
		if err != nil {
			return because(err)
		}
		resp, err := c.node.NodeGetVolumeStats(ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: r.ID, VolumePath: path, StagingTargetPath: staging})
		if err != nil {
			return err
		}
		*out = volume.Stats{Condition: conditionOf(resp.GetVolumeCondition(), p.sent.with(nil))}
		for _, u := range resp.GetUsage() {
			if u.GetTotal() < 0 || u.GetUsed() < 0 {
				return defective("it measured less than nothing")
			}
			usage := &volume.Usage{Total: u.GetTotal(), Used: u.GetUsed(), Available: max(0, u.GetAvailable())}
			switch u.GetUnit() {
			case csi.VolumeUsage_BYTES:
				out.Bytes = usage
			case csi.VolumeUsage_INODES:
				out.Inodes = usage
			}
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	return out, nil
}
