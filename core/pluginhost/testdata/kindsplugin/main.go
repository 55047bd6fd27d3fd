// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command kindsplugin serves what the name of its file says: many kinds and names at once,
// or versions that a host does not know.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/device/v1/devicetest/filedevice"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest/shelldriver"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
	stats "github.com/drover-project/drover/sdk/stats/v1"
	"github.com/drover-project/drover/sdk/stats/v1/statstest/filestats"
)

// named returns the drivers that a file's name says: serves-WHO-ONE-TWO. A plugin that is
// called slow takes its time.
func named(file string) []plugin.Service {
	parts := strings.Split(file, "-")
	if strings.Contains(parts[1], "slow") {
		time.Sleep(300 * time.Millisecond)
	}
	var drivers []driver.Driver
	for _, name := range parts[2:] {
		switch name {
		case "escape":
			drivers = append(drivers, shelldriver.New("es\x1b[31m/cape"))
		case "boaster":
			drivers = append(drivers, boaster{shelldriver.New("boaster")})
		default:
			drivers = append(drivers, shelldriver.New(name))
		}
	}
	return []plugin.Service{driver.Service(drivers...)}
}

// boaster is a driver that sets attributes which it may not set, with escape codes for red
// text.
type boaster struct{ *shelldriver.Driver }

func (b boaster) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	out := make(chan driver.Fingerprint, 1)
	out <- driver.Fingerprint{
		Attributes: map[string]string{"driver.boaster": "1", "driver.boaster.version": "2", "driver.boasters": "1", "driver.one": "1", "kernel.name": "windows"},
		Health:     driver.HealthHealthy, HealthDescription: "all \x1b[31mred\nand \u202eback",
	}
	go func() {
		<-ctx.Done()
		close(out)
	}()
	return out, nil
}

func (b boaster) InspectTask(context.Context, string) (*driver.TaskStatus, error) {
	return nil, errdefs.NotFoundf("no\x1b]0;title\x07 task")
}

func main() {
	drivers := driver.Service(shelldriver.New("one"), shelldriver.New("two"))
	next := plugin.Service{Kind: plugin.Kind{Name: "driver", Version: 2}, Register: drivers.Register}
	both := next // a second registration of one gRPC service would panic
	both.Register = func(grpc.ServiceRegistrar) {}
	services := []plugin.Service{drivers, device.Service(filedevice.New("files")), stats.Service(filestats.New("numbers"))}
	if base := filepath.Base(os.Args[0]); strings.HasPrefix(base, "serves-") {
		services = named(base)
	}
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
