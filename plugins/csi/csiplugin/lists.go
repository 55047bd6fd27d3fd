// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-project/drover/sdk/errdefs"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

// maxPage is the largest number of elements of a page that is passed on: an answer must fit
// into a message, and drivers may ignore the limit that they are given.
const maxPage = 5000

// place is where the rest of a driver's list begins.
type place struct {
	skip  int    // elements of the page that were returned already
	token string // the driver's token of the page; "" is its first page
}

func (p place) String() string {
	if p == (place{}) {
		return ""
	}
	return fmt.Sprintf("%d:%s", p.skip, p.token)
}

func placeOf(after string) (place, error) {
	if after == "" {
		return place{}, nil
	}
	skip, token, ok := strings.Cut(after, ":")
	n, err := strconv.Atoi(skip)
	if !ok || err != nil || n < 0 {
		return place{}, startAgainf("%.40q is no place in a list", after)
	}
	return place{n, token}, nil
}

func startAgainf(format string, args ...any) error {
	return errdefs.WithReason(errdefs.Abortedf(format, args...), volume.ReasonStartAgain)
}

// turn cuts a page of the driver to what was asked for, and returns the place after it.
func turn[T any](all []T, at place, limit int, next string) ([]T, place, error) {
	if next != "" && next == at.token {
		return nil, place{}, defective("its list goes on where it began")
	}
	if at.skip > len(all) {
		return nil, place{}, because(startAgainf("the driver's list has become shorter"))
	}
	rest := all[at.skip:]
	if len(rest) > limit {
		return rest[:limit], place{at.skip + limit, at.token}, nil
	}
	if next == "" {
		return rest, place{}, nil
	}
	return rest, place{0, next}, nil
}

// pageLimit returns the number of elements of a page.
func pageLimit(asked int) int {
	if asked <= 0 || asked > maxPage {
		return maxPage
	}
	return asked
}

// List implements volume.Lister.
func (p *Plugin) List(ctx context.Context, r volume.PageRequest) (*volume.VolumePage, error) {
	at, err := placeOf(r.After)
	if err != nil {
		return nil, err
	}
	limit := pageLimit(r.Limit)
	out := &volume.VolumePage{}
	err = p.read(ctx, call{what: "list volumes", try: func(ctx context.Context, c *conn, _ *settings) error {
		resp, err := c.controller.ListVolumes(ctx, &csi.ListVolumesRequest{MaxEntries: driverLimit(limit, at), StartingToken: at.token})
		if err != nil {
			return err
		}
		entries, next, err := turn(resp.GetEntries(), at, limit, resp.GetNextToken())
		if err != nil {
			return err
		}
		out.Volumes, out.Next = nil, next.String()
		told := p.sent.with(nil)
		for _, e := range entries {
			d, err := describe(e.GetVolume())
			if err != nil {
				return err
			}
			if err := addStatus(&d, e.GetStatus().GetPublishedNodeIds(), e.GetStatus().GetVolumeCondition(), told); err != nil {
				return err
			}
			out.Volumes = append(out.Volumes, d)
		}
		return nil
	}})
	if err != nil {
		return nil, startingAgain(err)
	}
	return out, nil
}

// driverLimit is the limit for the driver. A driver that has ignored it once gets none, so
// that its page is the same again.
func driverLimit(limit int, at place) int32 {
	if at.skip > 0 {
		return 0
	}
	return int32(limit)
}

// startingAgain says what Aborted means where pages are asked for.
func startingAgain(err error) error {
	if errdefs.IsAborted(err) {
		return errdefs.WithReason(err, volume.ReasonStartAgain)
	}
	return err
}

// CreateSnapshot implements volume.Snapshotter.
func (p *Plugin) CreateSnapshot(ctx context.Context, r volume.SnapshotRequest) (*volume.Snapshot, error) {
	req := &csi.CreateSnapshotRequest{SourceVolumeId: r.VolumeID, Name: r.Name, Parameters: r.Parameters, Secrets: r.Secrets}
	var out volume.Snapshot
	err := p.do(ctx, call{lane: r.VolumeID, what: quoted("make snapshot", r.Name), secrets: r.Secrets, try: func(ctx context.Context, c *conn, _ *settings) error {
		resp, err := c.controller.CreateSnapshot(ctx, req)
		if err != nil {
			return err
		}
		if out, err = snapshotOf(resp.GetSnapshot()); err == nil && out.VolumeID != r.VolumeID {
			err = defective("it answered with a snapshot of another volume")
		}
		return err
	}})
	if err != nil {
		err = reasoned(err, codes.ResourceExhausted, volume.ReasonNoSpace)
		return nil, reasoned(err, codes.NotFound, volume.ReasonNoVolume)
	}
	return &out, nil
}

func snapshotOf(s *csi.Snapshot) (volume.Snapshot, error) {
	out := volume.Snapshot{ID: s.GetSnapshotId(), VolumeID: s.GetSourceVolumeId(), SizeBytes: max(0, s.GetSizeBytes()), Ready: s.GetReadyToUse()}
	if at := s.GetCreationTime(); at.IsValid() {
		out.CreatedAt = at.AsTime()
	}
	if err := checkID("the id of a snapshot", out.ID); err != nil {
		return out, err
	}
	return out, checkID("the id of a snapshot's volume", out.VolumeID)
}

// DeleteSnapshot implements volume.Snapshotter.
func (p *Plugin) DeleteSnapshot(ctx context.Context, id string, secrets volume.Secrets) error {
	return p.do(ctx, call{precondition: volume.ReasonInUse, lane: "snapshot " + id, what: quoted("delete snapshot", id), secrets: secrets, try: func(ctx context.Context, c *conn, _ *settings) error {
		_, err := c.controller.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: id, Secrets: secrets})
		return unlessGone(err)
	}})
}

// ListSnapshots implements volume.SnapshotLister.
func (p *Plugin) ListSnapshots(ctx context.Context, r volume.SnapshotPageRequest) (*volume.SnapshotPage, error) {
	at, err := placeOf(r.After)
	if err != nil {
		return nil, err
	}
	limit := pageLimit(r.Limit)
	out := &volume.SnapshotPage{}
	err = p.read(ctx, call{what: "list snapshots", secrets: r.Secrets, try: func(ctx context.Context, c *conn, _ *settings) error {
		resp, err := c.controller.ListSnapshots(ctx, &csi.ListSnapshotsRequest{
			MaxEntries: driverLimit(limit, at), StartingToken: at.token, SourceVolumeId: r.VolumeID, SnapshotId: r.SnapshotID, Secrets: r.Secrets,
		})
		if status.Code(err) == codes.NotFound { // CSI wants an empty list, which not all drivers know
			*out = volume.SnapshotPage{}
			return nil
		}
		if err != nil {
			return err
		}
		entries, next, err := turn(resp.GetEntries(), at, limit, resp.GetNextToken())
		if err != nil {
			return err
		}
		out.Snapshots, out.Next = nil, next.String()
		for _, e := range entries {
			s, err := snapshotOf(e.GetSnapshot())
			if err != nil {
				return err
			}
			if r.VolumeID != "" && s.VolumeID != r.VolumeID || r.SnapshotID != "" && s.ID != r.SnapshotID {
				return defective("it answered with another snapshot than it was asked for")
			}
			out.Snapshots = append(out.Snapshots, s)
		}
		return nil
	}})
	if err != nil {
		return nil, startingAgain(err)
	}
	return out, nil
}
