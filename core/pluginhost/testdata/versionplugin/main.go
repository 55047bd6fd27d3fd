// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command versionplugin is a plugin of many versions for the host's tests: what
// is appended to its executable as a line of JSON says which it is and what is
// wrong with it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest/shelldriver"
	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
	"github.com/drover-project/drover/sdk/network/v1/networktest/filenetwork"
	"github.com/drover-project/drover/sdk/plugin"
	registry "github.com/drover-project/drover/sdk/registry/v1"
	"github.com/drover-project/drover/sdk/registry/v1/registrytest/fileregistry"
	stats "github.com/drover-project/drover/sdk/stats/v1"
	"github.com/drover-project/drover/sdk/stats/v1/statstest/filestats"
	volume "github.com/drover-project/drover/sdk/volume/v1"
	"github.com/drover-project/drover/sdk/volume/v1/volumetest/filevolume"
)

type version struct {
	Version string
	Drivers []string
	// Collectors each read a directory; the fault stalls has them not measure.
	Collectors []string
	// Networks each keep networks in the working directory.
	Networks []string
	// Volumes each keep volumes in the working directory.
	Volumes []string
	// Registries each keep services in a file of the working directory.
	Registries []string
	// Fault is exits, hangs, loses, stalls, unhealthy, looks, crashes, refuses or mute.
	Fault string
}

func main() {
	v, err := self()
	if err == nil {
		err = serve(v)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// self reads the last line of the executable.
func self() (v version, err error) {
	path, err := os.Executable()
	if err != nil {
		return v, err
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return v, err
	}
	err = json.Unmarshal(body[bytes.LastIndexByte(body, '\n'):], &v)
	return v, err
}

func serve(v version) error {
	switch v.Fault {
	case "exits":
		fmt.Fprintln(os.Stderr, "this version is no good")
		os.Exit(1)
	case "hangs":
		<-time.After(time.Hour) // a wait without an end would be reported as a deadlock
	case "crashes":
		time.AfterFunc(time.Second, func() { os.Exit(2) })
	}
	var drivers []driver.Driver
	for _, name := range v.Drivers {
		drivers = append(drivers, &faulty{shelldriver.New(name), v.Fault})
	}
	services := []plugin.Service{driver.Service(drivers...)}
	if len(v.Collectors) > 0 {
		var collectors []stats.Collector
		for _, name := range v.Collectors {
			collectors = append(collectors, &silent{filestats.New(name), v.Fault})
		}
		services = append(services, stats.Service(collectors...))
	}
	if len(v.Networks) > 0 {
		var networks []network.Network
		for _, name := range v.Networks {
			networks = append(networks, &mute{filenetwork.New(name, "."), v.Fault})
		}
		services = append(services, network.Service(networks...))
	}
	if len(v.Volumes) > 0 {
		var volumes []volume.Volume
		for _, name := range v.Volumes {
			volumes = append(volumes, filevolume.New(name, "volumes"))
		}
		services = append(services, volume.Service(volumes...))
	}
	if len(v.Registries) > 0 {
		var registries []registry.Registry
		for _, name := range v.Registries {
			registries = append(registries, fileregistry.New(name, name+".json"))
		}
		services = append(services, registry.Service(registries...))
	}
	return plugin.Serve(plugin.Info{Name: "versioned", Version: v.Version}, services...)
}

// mute is a network plugin that, with the fault of that name, does not say what it offers.
type mute struct {
	network.Network
	fault string
}

func (m *mute) Fingerprint(ctx context.Context) (<-chan network.Fingerprint, error) {
	if m.fault == "mute" {
		return make(chan network.Fingerprint), nil
	}
	return m.Network.Fingerprint(ctx)
}

// silent is a collector with a fault.
type silent struct {
	*filestats.Collector
	fault string
}

func (s *silent) Collect(ctx context.Context, interval time.Duration) (<-chan stats.Sample, error) {
	if s.fault == "stalls" {
		return nil, errdefs.Unimplementedf("this version measures nothing")
	}
	return s.Collector.Collect(ctx, interval)
}

// faulty is a driver with a fault.
type faulty struct {
	*shelldriver.Driver
	fault string
}

func (f *faulty) SetConfig(ctx context.Context, config []byte) error {
	if f.fault == "refuses" {
		return errdefs.InvalidArgumentf("nothing is right for this version")
	}
	return f.Driver.SetConfig(ctx, config)
}

func (f *faulty) RecoverTask(ctx context.Context, h *driver.Handle) error {
	switch f.fault {
	case "loses":
		return errdefs.NotFoundf("this version knows no task of before")
	case "stalls":
		<-ctx.Done()
		return ctx.Err()
	}
	return f.Driver.RecoverTask(ctx, h)
}

func (f *faulty) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	out := make(chan driver.Fingerprint, 1)
	switch f.fault {
	default:
		return f.Driver.Fingerprint(ctx)
	case "looks": // as java, while the JVM says its version
		out <- driver.Fingerprint{Health: driver.HealthUndetected, HealthDescription: "it is being looked for"}
		time.AfterFunc(300*time.Millisecond, func() {
			out <- driver.Fingerprint{Health: driver.HealthHealthy, HealthDescription: "Healthy"}
		})
		return out, nil
	case "unhealthy":
	}
	out <- driver.Fingerprint{Health: driver.HealthUnhealthy, HealthDescription: "this version is ill"}
	return out, nil
}
