// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"context"
	"path/filepath"

	"google.golang.org/grpc"

	pb "github.com/drover-project/drover/sdk/internal/pb/volume/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/served"
	"github.com/drover-project/drover/sdk/internal/stream"
	"github.com/drover-project/drover/sdk/plugin"
)

// Kind is the name and version of this contract.
var Kind = plugin.Kind{Name: "volume", Version: 1}

// Service prepares storage plugins for plugin.Serve. Their names must differ.
func Service(volumes ...Volume) plugin.Service {
	return plugin.Service{Kind: Kind, Guests: plugin.Guests(volumes), Register: func(r grpc.ServiceRegistrar) {
		pb.RegisterVolumeServer(r, &server{volumes: served.New("this process has no storage plugin", volumes, func(v Volume) string { return v.Info().Name })})
	}}
}

// server serves storage plugins to the host.
type server struct {
	pb.UnimplementedVolumeServer
	volumes *served.Plugins[Volume]
}

// with calls the named plugin, which must have the ability A, unless the request has a
// problem. Its error is a gRPC error.
func with[A, R any](s *server, name string, problem error, do func(A) (R, error)) (R, error) {
	var none R
	v, err := s.volumes.Get(name)
	if err != nil {
		return none, err
	}
	a, ok := v.(A)
	if !ok {
		return none, errdefs.ToGRPC(errdefs.Unimplementedf("storage plugin %q does not have this ability", name))
	}
	if problem != nil {
		return none, errdefs.ToGRPC(problem)
	}
	out, err := do(a)
	if err != nil {
		return none, errdefs.ToGRPC(err)
	}
	return out, nil
}

// named is the problem of a request without a name or id.
func named(what, id string) error {
	if id == "" {
		return errdefs.InvalidArgumentf("a request needs the %s", what)
	}
	return nil
}

// placed is the problem of a request about a volume at a path.
func placed(id, path string) error {
	if err := named("id of a volume", id); err != nil {
		return err
	}
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return errdefs.InvalidArgumentf("the path %q is not absolute, or not in its shortest form", path)
	}
	return nil
}

func (s *server) Plugins(context.Context, *pb.PluginsRequest) (*pb.PluginsResponse, error) {
	infos, err := served.Infos(s.volumes, infoToPB)
	return &pb.PluginsResponse{Plugins: infos}, err
}

func (s *server) SetConfig(ctx context.Context, req *pb.SetConfigRequest) (*pb.SetConfigResponse, error) {
	return with(s, req.GetPlugin(), nil, func(v Volume) (*pb.SetConfigResponse, error) {
		return &pb.SetConfigResponse{}, v.SetConfig(ctx, req.GetConfig())
	})
}

func (s *server) Fingerprint(req *pb.FingerprintRequest, out grpc.ServerStreamingServer[pb.FingerprintResponse]) error {
	_, err := with(s, req.GetPlugin(), nil, func(v Volume) (struct{}, error) {
		return struct{}{}, stream.Serve(out, v.Fingerprint, func(f Fingerprint) *pb.FingerprintResponse { return fingerprintToPB(Complete(v, f)) })
	})
	return err
}

func (s *server) Publish(ctx context.Context, req *pb.PublishRequest) (*pb.PublishResponse, error) {
	return with(s, req.GetPlugin(), placed(req.GetId(), req.GetTargetPath()), func(v Volume) (*pb.PublishResponse, error) {
		return &pb.PublishResponse{}, v.Publish(ctx, PublishRequest{
			ID: req.GetId(), StagingPath: req.GetStagingPath(), TargetPath: req.GetTargetPath(), Access: accessFromPB(req.GetAccess()), ReadOnly: req.GetReadOnly(),
			Context: req.GetContext(), PublishContext: req.GetPublishContext(), Secrets: req.GetSecrets(),
		})
	})
}

func (s *server) Unpublish(ctx context.Context, req *pb.UnpublishRequest) (*pb.UnpublishResponse, error) {
	return with(s, req.GetPlugin(), placed(req.GetId(), req.GetTargetPath()), func(v Volume) (*pb.UnpublishResponse, error) {
		return &pb.UnpublishResponse{}, v.Unpublish(ctx, req.GetId(), req.GetTargetPath())
	})
}

func (s *server) Published(ctx context.Context, req *pb.PublishedRequest) (*pb.PublishedResponse, error) {
	return with(s, req.GetPlugin(), nil, func(v Volume) (*pb.PublishedResponse, error) {
		all, err := v.Published(ctx)
		return &pb.PublishedResponse{Publications: each(all, publicationToPB)}, err
	})
}

func (s *server) Stage(ctx context.Context, req *pb.StageRequest) (*pb.StageResponse, error) {
	return with(s, req.GetPlugin(), placed(req.GetId(), req.GetStagingPath()), func(v Stager) (*pb.StageResponse, error) {
		return &pb.StageResponse{}, v.Stage(ctx, StageRequest{
			ID: req.GetId(), StagingPath: req.GetStagingPath(), Access: accessFromPB(req.GetAccess()),
			Context: req.GetContext(), PublishContext: req.GetPublishContext(), Secrets: req.GetSecrets(),
		})
	})
}

func (s *server) Unstage(ctx context.Context, req *pb.UnstageRequest) (*pb.UnstageResponse, error) {
	return with(s, req.GetPlugin(), placed(req.GetId(), req.GetStagingPath()), func(v Stager) (*pb.UnstageResponse, error) {
		return &pb.UnstageResponse{}, v.Unstage(ctx, req.GetId(), req.GetStagingPath())
	})
}

func (s *server) NodeExpand(ctx context.Context, req *pb.NodeExpandRequest) (*pb.NodeExpandResponse, error) {
	return with(s, req.GetPlugin(), placed(req.GetId(), req.GetPath()), func(v NodeExpander) (*pb.NodeExpandResponse, error) {
		size, err := v.NodeExpand(ctx, NodeExpandRequest{
			ID: req.GetId(), Path: req.GetPath(), StagingPath: req.GetStagingPath(), Capacity: rangeFromPB(req.GetCapacity()),
			Access: accessFromPB(req.GetAccess()), Secrets: req.GetSecrets(),
		})
		return &pb.NodeExpandResponse{CapacityBytes: size}, err
	})
}

func (s *server) Stats(ctx context.Context, req *pb.StatsRequest) (*pb.StatsResponse, error) {
	return with(s, req.GetPlugin(), placed(req.GetId(), req.GetPath()), func(v Meter) (*pb.StatsResponse, error) {
		st, err := v.Stats(ctx, StatsRequest{ID: req.GetId(), Path: req.GetPath(), StagingPath: req.GetStagingPath()})
		if err != nil {
			return nil, err
		}
		return &pb.StatsResponse{Bytes: usageToPB(st.Bytes), Inodes: usageToPB(st.Inodes), Condition: conditionToPB(st.Condition)}, nil
	})
}
