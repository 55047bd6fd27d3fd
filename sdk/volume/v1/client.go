// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"context"

	"google.golang.org/grpc"

	pb "github.com/drover-project/drover/sdk/internal/pb/volume/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/served"
	"github.com/drover-project/drover/sdk/internal/stream"
)

// Connect returns the storage plugins of the process at the other end of conn. Only the
// host calls it.
func Connect(ctx context.Context, conn grpc.ClientConnInterface) ([]Full, error) {
	rpc := pb.NewVolumeClient(conn)
	resp, err := rpc.Plugins(ctx, &pb.PluginsRequest{})
	return served.Clients(resp.GetPlugins(), err, infoFromPB, func(i Info) Full { return &client{rpc: rpc, info: i} })
}

// client is a storage plugin in another process.
type client struct {
	rpc  pb.VolumeClient
	info Info
}

var _ Full = (*client)(nil)

// Announced returns what the plugin announced.
func (c *client) Announced() []Feature { return c.info.Features }

func (c *client) Info() Info { return c.info }

func (c *client) SetConfig(ctx context.Context, config []byte) error {
	_, err := c.rpc.SetConfig(ctx, &pb.SetConfigRequest{Plugin: c.info.Name, Config: config})
	return errdefs.FromGRPC(err)
}

func (c *client) Fingerprint(ctx context.Context) (<-chan Fingerprint, error) {
	s, err := c.rpc.Fingerprint(ctx, &pb.FingerprintRequest{Plugin: c.info.Name})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return stream.Receive(ctx, s, fingerprintFromPB)
}

func (c *client) Publish(ctx context.Context, r PublishRequest) error {
	_, err := c.rpc.Publish(ctx, &pb.PublishRequest{
		Plugin: c.info.Name, Id: r.ID, StagingPath: r.StagingPath, TargetPath: r.TargetPath, Access: accessToPB(r.Access), ReadOnly: r.ReadOnly,
		Context: r.Context, PublishContext: r.PublishContext, Secrets: r.Secrets,
	})
	return errdefs.FromGRPC(err)
}

func (c *client) Unpublish(ctx context.Context, id, targetPath string) error {
	_, err := c.rpc.Unpublish(ctx, &pb.UnpublishRequest{Plugin: c.info.Name, Id: id, TargetPath: targetPath})
	return errdefs.FromGRPC(err)
}

func (c *client) Published(ctx context.Context) ([]Publication, error) {
	resp, err := c.rpc.Published(ctx, &pb.PublishedRequest{Plugin: c.info.Name})
	return each(resp.GetPublications(), publicationFromPB), errdefs.FromGRPC(err)
}

// described returns the volume of an answer, which must have one.
func (c *client) described(m *pb.Description, err error) (*Description, error) {
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	if m.GetId() == "" {
		return nil, c.defective("without the id of a volume")
	}
	d := descriptionFromPB(m)
	return &d, nil
}

func (c *client) defective(how string) error {
	return errdefs.WithReason(errdefs.Internalf("storage plugin %q answered %s; the plugin is defective", c.info.Name, how), ReasonDefective)
}

func (c *client) Create(ctx context.Context, r CreateRequest) (*Description, error) {
	resp, err := c.rpc.Create(ctx, createToPB(c.info.Name, r))
	return c.described(resp.GetVolume(), err)
}

func (c *client) Delete(ctx context.Context, id string, secrets Secrets) error {
	_, err := c.rpc.Delete(ctx, &pb.DeleteRequest{Plugin: c.info.Name, Id: id, Secrets: secrets})
	return errdefs.FromGRPC(err)
}

func (c *client) Validate(ctx context.Context, r ValidateRequest) error {
	_, err := c.rpc.Validate(ctx, &pb.ValidateRequest{
		Plugin: c.info.Name, Id: r.ID, Access: each(r.Access, accessToPB), Context: r.Context, Parameters: r.Parameters, Secrets: r.Secrets,
	})
	return errdefs.FromGRPC(err)
}

func (c *client) List(ctx context.Context, r PageRequest) (*VolumePage, error) {
	resp, err := c.rpc.List(ctx, &pb.ListRequest{Plugin: c.info.Name, Limit: int32(r.Limit), After: r.After})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return &VolumePage{Volumes: each(resp.GetVolumes(), descriptionFromPB), Next: resp.GetNext()}, nil
}

func (c *client) Get(ctx context.Context, id string) (*Description, error) {
	resp, err := c.rpc.Get(ctx, &pb.GetRequest{Plugin: c.info.Name, Id: id})
	d, err := c.described(resp.GetVolume(), err)
	if err == nil && d.ID != id {
		return nil, c.defective("about another volume than the one that it was asked for")
	}
	return d, err
}

func (c *client) Capacity(ctx context.Context, r CapacityRequest) (*Capacity, error) {
	resp, err := c.rpc.Capacity(ctx, &pb.CapacityRequest{Plugin: c.info.Name, Access: each(r.Access, accessToPB), Parameters: r.Parameters, Topology: topologyToPB(r.Topology)})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return &Capacity{AvailableBytes: resp.GetAvailableBytes(), MaxVolumeBytes: resp.MaxVolumeBytes, MinVolumeBytes: resp.MinVolumeBytes}, nil
}

func (c *client) Expand(ctx context.Context, r ExpandRequest) (*Expansion, error) {
	resp, err := c.rpc.Expand(ctx, &pb.ExpandRequest{Plugin: c.info.Name, Id: r.ID, Capacity: rangeToPB(r.Capacity), Access: accessToPB(r.Access), Secrets: r.Secrets})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return &Expansion{CapacityBytes: resp.GetCapacityBytes(), NodeExpansion: resp.GetNodeExpansion()}, nil
}

func (c *client) Modify(ctx context.Context, r ModifyRequest) error {
	_, err := c.rpc.Modify(ctx, &pb.ModifyRequest{Plugin: c.info.Name, Id: r.ID, Parameters: r.Parameters, Secrets: r.Secrets})
	return errdefs.FromGRPC(err)
}

func (c *client) CreateSnapshot(ctx context.Context, r SnapshotRequest) (*Snapshot, error) {
	resp, err := c.rpc.CreateSnapshot(ctx, &pb.CreateSnapshotRequest{Plugin: c.info.Name, Name: r.Name, VolumeId: r.VolumeID, Parameters: r.Parameters, Secrets: r.Secrets})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	s := snapshotFromPB(resp.GetSnapshot())
	switch {
	case s.ID == "":
		return nil, c.defective("without the id of a snapshot")
	case s.VolumeID != r.VolumeID:
		return nil, c.defective("with a snapshot of another volume than the one that it was asked for")
	}
	return &s, nil
}

func (c *client) DeleteSnapshot(ctx context.Context, id string, secrets Secrets) error {
	_, err := c.rpc.DeleteSnapshot(ctx, &pb.DeleteSnapshotRequest{Plugin: c.info.Name, Id: id, Secrets: secrets})
	return errdefs.FromGRPC(err)
}

func (c *client) ListSnapshots(ctx context.Context, r SnapshotPageRequest) (*SnapshotPage, error) {
	resp, err := c.rpc.ListSnapshots(ctx, &pb.ListSnapshotsRequest{
		Plugin: c.info.Name, Limit: int32(r.Limit), After: r.After, VolumeId: r.VolumeID, SnapshotId: r.SnapshotID, Secrets: r.Secrets,
	})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return &SnapshotPage{Snapshots: each(resp.GetSnapshots(), snapshotFromPB), Next: resp.GetNext()}, nil
}

func (c *client) Attach(ctx context.Context, r AttachRequest) (map[string]string, error) {
	resp, err := c.rpc.Attach(ctx, &pb.AttachRequest{
		Plugin: c.info.Name, Id: r.ID, NodeId: r.NodeID, Access: accessToPB(r.Access), ReadOnly: r.ReadOnly, Context: r.Context, Secrets: r.Secrets,
	})
	return resp.GetPublishContext(), errdefs.FromGRPC(err)
}

func (c *client) Detach(ctx context.Context, r DetachRequest) error {
	_, err := c.rpc.Detach(ctx, &pb.DetachRequest{Plugin: c.info.Name, Id: r.ID, NodeId: r.NodeID, Secrets: r.Secrets})
	return errdefs.FromGRPC(err)
}

func (c *client) Stage(ctx context.Context, r StageRequest) error {
	_, err := c.rpc.Stage(ctx, &pb.StageRequest{
		Plugin: c.info.Name, Id: r.ID, StagingPath: r.StagingPath, Access: accessToPB(r.Access), Context: r.Context, PublishContext: r.PublishContext, Secrets: r.Secrets,
	})
	return errdefs.FromGRPC(err)
}

func (c *client) Unstage(ctx context.Context, id, stagingPath string) error {
	_, err := c.rpc.Unstage(ctx, &pb.UnstageRequest{Plugin: c.info.Name, Id: id, StagingPath: stagingPath})
	return errdefs.FromGRPC(err)
}

func (c *client) NodeExpand(ctx context.Context, r NodeExpandRequest) (int64, error) {
	resp, err := c.rpc.NodeExpand(ctx, &pb.NodeExpandRequest{
		Plugin: c.info.Name, Id: r.ID, Path: r.Path, StagingPath: r.StagingPath, Capacity: rangeToPB(r.Capacity), Access: accessToPB(r.Access), Secrets: r.Secrets,
	})
	return resp.GetCapacityBytes(), errdefs.FromGRPC(err)
}

func (c *client) Stats(ctx context.Context, r StatsRequest) (*Stats, error) {
	resp, err := c.rpc.Stats(ctx, &pb.StatsRequest{Plugin: c.info.Name, Id: r.ID, Path: r.Path, StagingPath: r.StagingPath})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return &Stats{Bytes: usageFromPB(resp.GetBytes()), Inodes: usageFromPB(resp.GetInodes()), Condition: conditionFromPB(resp.GetCondition())}, nil
}
