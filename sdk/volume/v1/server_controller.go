// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"context"

	pb "github.com/drover-project/drover/sdk/internal/pb/volume/v1"
)

// The calls of the controller's part.

func (s *server) Create(ctx context.Context, req *pb.CreateRequest) (*pb.CreateResponse, error) {
	return with(s, req.GetPlugin(), named("name of a volume", req.GetName()), func(v Creator) (*pb.CreateResponse, error) {
		d, err := v.Create(ctx, createFromPB(req))
		if err != nil {
			return nil, err
		}
		return &pb.CreateResponse{Volume: descriptionToPB(*d)}, nil
	})
}

func (s *server) Delete(ctx context.Context, req *pb.DeleteRequest) (*pb.DeleteResponse, error) {
	return with(s, req.GetPlugin(), named("id of a volume", req.GetId()), func(v Creator) (*pb.DeleteResponse, error) {
		return &pb.DeleteResponse{}, v.Delete(ctx, req.GetId(), req.GetSecrets())
	})
}

func (s *server) Validate(ctx context.Context, req *pb.ValidateRequest) (*pb.ValidateResponse, error) {
	return with(s, req.GetPlugin(), named("id of a volume", req.GetId()), func(v Validator) (*pb.ValidateResponse, error) {
		return &pb.ValidateResponse{}, v.Validate(ctx, ValidateRequest{
			ID: req.GetId(), Access: each(req.GetAccess(), accessFromPB), Context: req.GetContext(), Parameters: req.GetParameters(), Secrets: req.GetSecrets(),
		})
	})
}

func (s *server) List(ctx context.Context, req *pb.ListRequest) (*pb.ListResponse, error) {
	return with(s, req.GetPlugin(), nil, func(v Lister) (*pb.ListResponse, error) {
		page, err := v.List(ctx, PageRequest{Limit: int(req.GetLimit()), After: req.GetAfter()})
		if err != nil {
			return nil, err
		}
		return &pb.ListResponse{Volumes: each(page.Volumes, descriptionToPB), Next: page.Next}, nil
	})
}

func (s *server) Get(ctx context.Context, req *pb.GetRequest) (*pb.GetResponse, error) {
	return with(s, req.GetPlugin(), named("id of a volume", req.GetId()), func(v Getter) (*pb.GetResponse, error) {
		d, err := v.Get(ctx, req.GetId())
		if err != nil {
			return nil, err
		}
		return &pb.GetResponse{Volume: descriptionToPB(*d)}, nil
	})
}

func (s *server) Capacity(ctx context.Context, req *pb.CapacityRequest) (*pb.CapacityResponse, error) {
	return with(s, req.GetPlugin(), nil, func(v Sizer) (*pb.CapacityResponse, error) {
		c, err := v.Capacity(ctx, CapacityRequest{Access: each(req.GetAccess(), accessFromPB), Parameters: req.GetParameters(), Topology: topologyFromPB(req.GetTopology())})
		if err != nil {
			return nil, err
		}
		return &pb.CapacityResponse{AvailableBytes: c.AvailableBytes, MaxVolumeBytes: c.MaxVolumeBytes, MinVolumeBytes: c.MinVolumeBytes}, nil
	})
}

func (s *server) Expand(ctx context.Context, req *pb.ExpandRequest) (*pb.ExpandResponse, error) {
	return with(s, req.GetPlugin(), named("id of a volume", req.GetId()), func(v Expander) (*pb.ExpandResponse, error) {
		e, err := v.Expand(ctx, ExpandRequest{ID: req.GetId(), Capacity: rangeFromPB(req.GetCapacity()), Access: accessFromPB(req.GetAccess()), Secrets: req.GetSecrets()})
		if err != nil {
			return nil, err
		}
		return &pb.ExpandResponse{CapacityBytes: e.CapacityBytes, NodeExpansion: e.NodeExpansion}, nil
	})
}

func (s *server) Modify(ctx context.Context, req *pb.ModifyRequest) (*pb.ModifyResponse, error) {
	return with(s, req.GetPlugin(), named("id of a volume", req.GetId()), func(v Modifier) (*pb.ModifyResponse, error) {
		return &pb.ModifyResponse{}, v.Modify(ctx, ModifyRequest{ID: req.GetId(), Parameters: req.GetParameters(), Secrets: req.GetSecrets()})
	})
}

func (s *server) CreateSnapshot(ctx context.Context, req *pb.CreateSnapshotRequest) (*pb.CreateSnapshotResponse, error) {
	problem := named("name of a snapshot", req.GetName())
	if problem == nil {
		problem = named("id of a volume", req.GetVolumeId())
	}
	return with(s, req.GetPlugin(), problem, func(v Snapshotter) (*pb.CreateSnapshotResponse, error) {
		snap, err := v.CreateSnapshot(ctx, SnapshotRequest{Name: req.GetName(), VolumeID: req.GetVolumeId(), Parameters: req.GetParameters(), Secrets: req.GetSecrets()})
		if err != nil {
			return nil, err
		}
		return &pb.CreateSnapshotResponse{Snapshot: snapshotToPB(*snap)}, nil
	})
}

func (s *server) DeleteSnapshot(ctx context.Context, req *pb.DeleteSnapshotRequest) (*pb.DeleteSnapshotResponse, error) {
	return with(s, req.GetPlugin(), named("id of a snapshot", req.GetId()), func(v Snapshotter) (*pb.DeleteSnapshotResponse, error) {
		return &pb.DeleteSnapshotResponse{}, v.DeleteSnapshot(ctx, req.GetId(), req.GetSecrets())
	})
}

func (s *server) ListSnapshots(ctx context.Context, req *pb.ListSnapshotsRequest) (*pb.ListSnapshotsResponse, error) {
	return with(s, req.GetPlugin(), nil, func(v SnapshotLister) (*pb.ListSnapshotsResponse, error) {
		page, err := v.ListSnapshots(ctx, SnapshotPageRequest{
			PageRequest: PageRequest{Limit: int(req.GetLimit()), After: req.GetAfter()},
			VolumeID:    req.GetVolumeId(), SnapshotID: req.GetSnapshotId(), Secrets: req.GetSecrets(),
		})
		if err != nil {
			return nil, err
		}
		return &pb.ListSnapshotsResponse{Snapshots: each(page.Snapshots, snapshotToPB), Next: page.Next}, nil
	})
}

func (s *server) Attach(ctx context.Context, req *pb.AttachRequest) (*pb.AttachResponse, error) {
	problem := named("id of a volume", req.GetId())
	if problem == nil {
		problem = named("id of a node", req.GetNodeId())
	}
	return with(s, req.GetPlugin(), problem, func(v Attacher) (*pb.AttachResponse, error) {
		out, err := v.Attach(ctx, AttachRequest{
			ID: req.GetId(), NodeID: req.GetNodeId(), Access: accessFromPB(req.GetAccess()), ReadOnly: req.GetReadOnly(), Context: req.GetContext(), Secrets: req.GetSecrets(),
		})
		return &pb.AttachResponse{PublishContext: out}, err
	})
}

func (s *server) Detach(ctx context.Context, req *pb.DetachRequest) (*pb.DetachResponse, error) {
	return with(s, req.GetPlugin(), named("id of a volume", req.GetId()), func(v Attacher) (*pb.DetachResponse, error) {
		return &pb.DetachResponse{}, v.Detach(ctx, DetachRequest{ID: req.GetId(), NodeID: req.GetNodeId(), Secrets: req.GetSecrets()})
	})
}
