// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command nomadplugin is a driver that speaks the wire protocol of plugins built
// for Nomad and nothing of ours: it runs the shell's commands. A part of its file's name
// says what else it is like: "device", "executor", "chroot"; a device plugin with "absent" finds nothing.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	pb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/driver"
	basepb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/plugin"
)

func main() {
	if len(os.Args) > 3 && os.Args[1] == executorMode {
		os.Exit(execute(os.Args[2], os.Args[3:]))
	}
	d := newDriver(hclog.New(&hclog.LoggerOptions{JSONFormat: true, Level: hclog.Trace}))
	d.executors = strings.Contains(filepath.Base(os.Args[0]), "executor")
	d.chroot = strings.Contains(filepath.Base(os.Args[0]), "chroot")
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: 2, MagicCookieKey: "NOMAD_PLUGIN_MAGIC_COOKIE",
			MagicCookieValue: "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255",
		},
		Plugins:    plugins(d),
		GRPCServer: goplugin.DefaultGRPCServer,
	})
}

// plugins is a device plugin if the name that it was called by says so.
func plugins(d *driver) goplugin.PluginSet {
	if strings.Contains(filepath.Base(os.Args[0]), "device") {
		return goplugin.PluginSet{"base": &service{register: registerDeviceBase}, "device": &service{register: registerDevice}}
	}
	return goplugin.PluginSet{"base": &service{register: d.registerBase}, "driver": &service{register: d.registerDriver}}
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
