// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"context"

	"google.golang.org/grpc"

	pb "github.com/drover-project/drover/sdk/internal/pb/registry/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/served"
	"github.com/drover-project/drover/sdk/internal/stream"
	"github.com/drover-project/drover/sdk/plugin"
)

// Kind is the name and version of this contract.
var Kind = plugin.Kind{Name: "registry", Version: 1}

// Service prepares registries for plugin.Serve. Their names must differ.
func Service(registries ...Registry) plugin.Service {
	return plugin.Service{Kind: Kind, Guests: plugin.Guests(registries), Register: func(r grpc.ServiceRegistrar) {
		pb.RegisterRegistryServer(r, &server{registries: served.New("this process has no registry", registries, func(r Registry) string { return r.Info().Name })})
	}}
}

// server serves registries to the host.
type server struct {
	pb.UnimplementedRegistryServer
	registries *served.Plugins[Registry]
}

func (s *server) Plugins(context.Context, *pb.PluginsRequest) (*pb.PluginsResponse, error) {
	infos, err := served.Infos(s.registries, infoToPB)
	return &pb.PluginsResponse{Plugins: infos}, err
}

func (s *server) SetConfig(ctx context.Context, req *pb.SetConfigRequest) (*pb.SetConfigResponse, error) {
	r, err := s.registries.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	return &pb.SetConfigResponse{}, errdefs.ToGRPC(r.SetConfig(ctx, req.GetConfig()))
}

func (s *server) Fingerprint(req *pb.FingerprintRequest, out grpc.ServerStreamingServer[pb.FingerprintResponse]) error {
	r, err := s.registries.Get(req.GetPlugin())
	if err != nil {
		return err
	}
	return stream.Serve(out, r.Fingerprint, fingerprintToPB)
}

func (s *server) Sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncResponse, error) {
	r, err := s.registries.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	if req.GetOwner() == "" {
		return nil, errdefs.ToGRPC(errdefs.InvalidArgumentf("the services to register need an owner"))
	}
	result, err := r.Sync(ctx, SyncRequest{Owner: req.GetOwner(), Cluster: req.GetCluster(), Services: each(req.GetServices(), registrationFromPB), Credentials: credentialsFromPB(req.GetCredentials())})
	if err != nil {
		return nil, errdefs.ToGRPC(err)
	}
	out := &pb.SyncResponse{}
	if result != nil {
		out.Refusals = each(result.Refusals, func(r Refusal) *pb.Refusal { return &pb.Refusal{Id: r.ID, Reason: r.Reason, Login: r.Login} })
	}
	return out, nil
}

func (s *server) Query(ctx context.Context, req *pb.QueryRequest) (*pb.QueryResponse, error) {
	r, err := s.registries.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	q, ok := r.(Querier)
	if !ok {
		return nil, errdefs.ToGRPC(errdefs.Unimplementedf("registry %q answers no queries", req.GetPlugin()))
	}
	a, err := q.Query(ctx, queryFromPB(req))
	if err != nil {
		return nil, errdefs.ToGRPC(err)
	}
	return answerToPB(a), nil
}

func (s *server) authenticator(name string) (Authenticator, error) {
	r, err := s.registries.Get(name)
	if err != nil {
		return nil, err
	}
	a, ok := r.(Authenticator)
	if !ok {
		return nil, errdefs.ToGRPC(errdefs.Unimplementedf("registry %q knows no logins", name))
	}
	return a, nil
}

func (s *server) Login(ctx context.Context, req *pb.LoginRequest) (*pb.LoginResponse, error) {
	a, err := s.authenticator(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	l, err := a.Login(ctx, LoginRequest{Cluster: req.GetCluster(), For: LoginFor(req.GetFor()), Token: req.GetToken(), Meta: req.GetMeta()})
	if err != nil {
		return nil, errdefs.ToGRPC(err)
	}
	if l == nil {
		return nil, errdefs.ToGRPC(errdefs.Internalf("registry %q returned no credential", req.GetPlugin()))
	}
	return &pb.LoginResponse{Credential: credentialToPB(l.Credential), TtlNs: int64(l.TTL)}, nil
}

func (s *server) Logout(ctx context.Context, req *pb.LogoutRequest) (*pb.LogoutResponse, error) {
	a, err := s.authenticator(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	return &pb.LogoutResponse{}, errdefs.ToGRPC(a.Logout(ctx, req.GetCluster(), credentialFromPB(req.GetCredential())))
}
