// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command kindsplugin serves what the name says that it was called by: many kinds
// and names at once, or versions that a host does not know.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/device/v1/devicetest/filedevice"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest/shelldriver"
	"github.com/drover-project/drover/sdk/plugin"
	stats "github.com/drover-project/drover/sdk/stats/v1"
	"github.com/drover-project/drover/sdk/stats/v1/statstest/filestats"
)

func main() {
	drivers := driver.Service(shelldriver.New("one"), shelldriver.New("two"))
	next := plugin.Service{Kind: plugin.Kind{Name: "driver", Version: 2}, Register: drivers.Register}
	both := next // a second registration of one gRPC service would panic
	both.Register = func(grpc.ServiceRegistrar) {}
	services := []plugin.Service{drivers, device.Service(filedevice.New("files")), stats.Service(filestats.New("numbers"))}
	switch name := filepath.Base(os.Args[0]); name {
	case "many":
	case "next":
		services = []plugin.Service{next}
	case "both":
		services = []plugin.Service{both, drivers}
	case "newest-and-device":
		services = []plugin.Service{next, device.Service(filedevice.New("files"))}
	case "protocol":
		goplugin.Serve(&goplugin.ServeConfig{
			HandshakeConfig:  plugin.Handshake(),
			VersionedPlugins: map[int]goplugin.PluginSet{7: {"drover": nil}},
			GRPCServer:       goplugin.DefaultGRPCServer,
		})
		return
	}
	if err := plugin.Serve(plugin.Info{Name: "kindsplugin", Version: "0.1.0"}, services...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
