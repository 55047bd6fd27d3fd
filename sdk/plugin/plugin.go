// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package plugin is what every Drover plugin has, whatever its kind: the
// handshake, the Info call, and Serve, which a plugin's main calls. It owns no
// contract of a kind (sdk/driver/v1 and so on) and not the side that launches
// plugins (core/pluginhost). Plugins and core/pluginhost import it.
package plugin

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	pluginv1 "github.com/drover-project/drover/sdk/internal/pb/plugin/v1"

	"github.com/drover-project/drover/sdk/errdefs"
)

// ProtocolVersion is the version of what this package and the host speak before
// and beside the contracts of the kinds. It grows only if that changes in a way
// that old plugins cannot follow; contracts have versions of their own.
const ProtocolVersion = 1

// The handshake: the host sets this variable, so that a plugin started by hand
// can say what it is instead of waiting for a host.
const (
	MagicCookieKey   = "DROVER_PLUGIN_COOKIE"
	MagicCookieValue = "6b8e0f3d7a2c4e51b9d4c7f1a0e63528"
)

// Info says what a plugin process is.
type Info struct {
	Name    string
	Version string
	// Kinds is filled in by Serve from the services.
	Kinds []Kind
}

// Kind is one contract that a plugin serves, as {"driver", 1}.
type Kind struct {
	Name    string
	Version int
}

func (k Kind) String() string { return fmt.Sprintf("%s v%d", k.Name, k.Version) }

// Service is a kind's contract, ready to be served. The contract's package makes
// it: driver.Service(d1, d2).
type Service struct {
	Kind     Kind
	Register func(grpc.ServiceRegistrar)
}

// infoServer answers the Plugin service.
type infoServer struct {
	pluginv1.UnimplementedPluginServer
	info Info
}

func (s *infoServer) Info(context.Context, *pluginv1.InfoRequest) (*pluginv1.InfoResponse, error) {
	out := &pluginv1.InfoResponse{Name: s.info.Name, Version: s.info.Version}
	for _, k := range s.info.Kinds {
		out.Kinds = append(out.Kinds, &pluginv1.Kind{Name: k.Name, Version: uint32(k.Version)})
	}
	return out, nil
}

// Register puts the Plugin service and the given services on a gRPC server.
// Serve does it for a process; tests do it for a server of their own.
func Register(s grpc.ServiceRegistrar, info Info, services ...Service) {
	info.Kinds = nil
	for _, svc := range services {
		info.Kinds = append(info.Kinds, svc.Kind)
		svc.Register(s)
	}
	pluginv1.RegisterPluginServer(s, &infoServer{info: info})
}

// Ask returns what the plugin at the other end of conn says it is. The answer
// needs no work of the plugin, so a host also uses it to see if it still answers.
func Ask(ctx context.Context, conn grpc.ClientConnInterface) (Info, error) {
	resp, err := pluginv1.NewPluginClient(conn).Info(ctx, &pluginv1.InfoRequest{})
	if err != nil {
		return Info{}, errdefs.FromGRPC(err)
	}
	info := Info{Name: resp.GetName(), Version: resp.GetVersion()}
	for _, k := range resp.GetKinds() {
		info.Kinds = append(info.Kinds, Kind{Name: k.GetName(), Version: int(k.GetVersion())})
	}
	return info, nil
}

// ShutdownGrace is how long a plugin that the host asks to end has for it.
const ShutdownGrace = 2 * time.Second
