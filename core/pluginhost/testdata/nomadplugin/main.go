// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command nomadplugin is a driver that speaks the wire protocol of plugins built
// for Nomad and nothing of ours: it runs the shell's commands.
package main

import (
	"context"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	pb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/driver"
	basepb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/plugin"
)

func main() {
	d := newDriver(hclog.New(&hclog.LoggerOptions{JSONFormat: true, Level: hclog.Trace}))
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: 2, MagicCookieKey: "NOMAD_PLUGIN_MAGIC_COOKIE",
			MagicCookieValue: "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255",
		},
		Plugins:    goplugin.PluginSet{"base": &service{register: d.registerBase}, "driver": &service{register: d.registerDriver}},
		GRPCServer: goplugin.DefaultGRPCServer,
	})
}

type service struct {
	goplugin.NetRPCUnsupportedPlugin
	register func(*grpc.Server)
}

func (s *service) GRPCServer(_ *goplugin.GRPCBroker, srv *grpc.Server) error {
	s.register(srv)
	return nil
}

func (s *service) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

func (d *driver) registerBase(s *grpc.Server)   { basepb.RegisterBasePluginServer(s, &base{driver: d}) }
func (d *driver) registerDriver(s *grpc.Server) { pb.RegisterDriverServer(s, d) }
