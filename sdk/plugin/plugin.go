// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package plugin holds what plugins of all kinds share: the handshake, the Info call,
// and Serve, which a plugin's main function calls. It owns no contract of a kind
// (sdk/driver/v1 and so on) and not the side that launches plugins (core/pluginhost).
// Plugins and core/pluginhost import it.
package plugin

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	pluginv1 "github.com/drover-project/drover/sdk/internal/pb/plugin/v1"
)

// ProtocolVersion is the version of the handshake and of the Plugin service, which are
// common to all contracts. It increases only for changes that old plugins cannot
// follow. Contracts have versions of their own.
const ProtocolVersion = 1

// The host sets this variable to this value. Without it a plugin knows that it
// was started by hand, and prints what it is instead of waiting for a host.
const (
	MagicCookieKey   = "DROVER_PLUGIN_COOKIE"
	MagicCookieValue = "6b8e0f3d7a2c4e51b9d4c7f1a0e63528"
)

// Info describes a plugin process.
type Info struct {
	Name    string
	Version string
	// Kinds is filled in by Serve from the services.
	Kinds []Kind
}

// Kind is a contract that a plugin serves, such as {"driver", 1}.
type Kind struct {
	Name    string
	Version int
}

func (k Kind) String() string { return fmt.Sprintf("%s v%d", k.Name, k.Version) }

// Service is the implementation of a contract, ready to be served. The package of the
// contract creates it, for example driver.Service(d1, d2).
type Service struct {
	Kind     Kind
	Register func(grpc.ServiceRegistrar)
	// Guests are the plugins of the service that want to know the host.
	Guests []HostAware
}

// infoServer implements the Plugin service.
type infoServer struct {
	pluginv1.UnimplementedPluginServer
	info   Info
	guests guests
}

func (s *infoServer) Info(_ context.Context, req *pluginv1.InfoRequest) (*pluginv1.InfoResponse, error) {
	s.guests.introduce(req.GetHost())
	out := &pluginv1.InfoResponse{Name: s.info.Name, Version: s.info.Version}
	for _, k := range s.info.Kinds {
		out.Kinds = append(out.Kinds, &pluginv1.Kind{Name: k.Name, Version: uint32(k.Version)})
	}
	return out, nil
}

// Register registers the Plugin service and the given services on a gRPC server. Serve
// does this for a process; tests use it for servers of their own.
func Register(s grpc.ServiceRegistrar, info Info, services ...Service) {
	info.Kinds = nil
	server := &infoServer{}
	for _, svc := range services {
		info.Kinds = append(info.Kinds, svc.Kind)
		svc.Register(s)
		server.guests.all = append(server.guests.all, svc.Guests...)
	}
	server.info = info
	pluginv1.RegisterPluginServer(s, server)
}

// ShutdownGrace is how long the host waits for a plugin that it asked to end before it
// kills it.
const ShutdownGrace = 2 * time.Second
