// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command testplugin is a real plugin for the host's tests; the name it is called
// by chooses how it behaves.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/device/v1/devicetest/filedevice"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest/shelldriver"
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

func main() {
	var err error
	switch name := filepath.Base(os.Args[0]); name {
	case "exits":
		fmt.Fprintln(os.Stderr, "no such daemon")
		os.Exit(7)
	case "hangs":
		<-time.After(time.Hour) // a wait without an end would be reported as a deadlock
	case "wrong-version":
		goplugin.Serve(&goplugin.ServeConfig{
			HandshakeConfig:  plugin.Handshake(),
			VersionedPlugins: map[int]goplugin.PluginSet{99: plugin.ClientSet()[plugin.ProtocolVersion]},
			GRPCServer:       goplugin.DefaultGRPCServer,
		})
	case "other-kind":
		err = plugin.Serve(plugin.Info{Name: name, Version: "9.9.9"}, plugin.Service{
			Kind: plugin.Kind{Name: "teapot", Version: 3}, Register: func(grpc.ServiceRegistrar) {},
		})
	case "devices":
		err = plugin.Serve(plugin.Info{Name: name, Version: "1.2.3"}, driver.Service(shelldriver.New("shell")), device.Service(filedevice.New("file")))
	case "one-name":
		err = plugin.Serve(plugin.Info{Name: name, Version: "1.2.3"}, driver.Service(shelldriver.New("same")), device.Service(filedevice.New("same")))
	case "twins":
		err = twins(plugin.Info{Name: name, Version: "1.2.3"})
	case "hosted":
		err = plugin.Serve(plugin.Info{Name: name, Version: "1.2.3"}, driver.Service(&hosted{Driver: shelldriver.New("hosted")}))
	case "impostor":
		impostor()
	case "hostile", "filler", "prints":
		switch name {
		case "hostile":
			attack()
		case "filler":
			fill()
		case "prints":
			go printAll()
		}
		err = plugin.Serve(plugin.Info{Name: name, Version: "1.2.3"}, stats.Service(filestats.New("file")))
	case "changes": // it becomes a driver
		if _, gone := os.Stat("driver"); gone == nil {
			err = plugin.Serve(plugin.Info{Name: name, Version: "2"}, driver.Service(shelldriver.New("shell")))
			break
		}
		err = plugin.Serve(plugin.Info{Name: name, Version: "1"}, stats.Service(filestats.New("file")))
	case "collects":
		err = plugin.Serve(plugin.Info{Name: name, Version: "1.2.3"}, stats.Service(filestats.New("file"), filestats.New("other")))
	default:
		if f := notPlugins[name]; f != nil {
			f()
			os.Exit(1)
		}
		if badPlugins[name] {
			err = serveBad(name)
			break
		}
		if name == "argued" {
			tellArgs()
		}
		if f := map[string]func(){"chatty": chat, "flood": flood}[name]; f != nil {
			go f()
		}
		if name == "glutton" {
			go devour()
		}
		if name == "lender" {
			lend()
		}
		if _, err := os.Stat(os.Getenv("TESTPLUGIN_FLAG")); name == "flag" && err != nil {
			fmt.Fprintln(os.Stderr, "not now")
			os.Exit(3)
		}
		err = plugin.Serve(plugin.Info{Name: name, Version: "1.2.3"}, driver.Service(shelldriver.New("shell"), shelldriver.New("shell2")))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// twins serves two of one name of several kinds.
func twins(info plugin.Info) error {
	return plugin.Serve(info, network.Service(filenetwork.New("net", "a"), filenetwork.New("net", "b")),
		volume.Service(filevolume.New("vol", "c"), filevolume.New("vol", "d")), registry.Service(fileregistry.New("reg", "e"), fileregistry.New("reg", "f")))
}

// lend starts a process that keeps the plugin's outputs open, as a task may, for as
// long as the plugin's folder is there.
func lend() {
	task := exec.Command("/bin/sh", "-c", `while [ -d "$0" ]; do sleep 0.1; done`, filepath.Dir(os.Args[0]))
	task.Stdout, task.Stderr = os.Stdout, os.Stderr
	if err := task.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// tellArgs writes the arguments into the file that the first of them names.
func tellArgs() {
	if len(os.Args) < 2 {
		return
	}
	if err := os.WriteFile(os.Args[1], []byte(strings.Join(os.Args[1:], " ")), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// chat writes to the log all the time, also when nobody reads it any more.
func chat() {
	log := plugin.Logger("chatty")
	for range time.Tick(5 * time.Millisecond) {
		log.Info("still here")
	}
}

// flood writes log lines as fast as it can, after one that is huge.
func flood() {
	log := plugin.Logger("flood")
	log.Warn(strings.Repeat("x", 60<<10))
	fmt.Fprintln(os.Stderr, "[ERROR] "+strings.Repeat("y", 1<<20))
	for i := range 100_000 {
		log.Warn("water", "drop", i)
	}
	log.Error("that was all")
}

// devour takes memory once the file that TESTPLUGIN_FLAG names is there.
func devour() {
	for range time.Tick(10 * time.Millisecond) {
		if _, err := os.Stat(os.Getenv("TESTPLUGIN_FLAG")); err == nil {
			break
		}
	}
	var kept [][]byte
	for {
		b := make([]byte, 8<<20)
		for i := range b {
			b[i] = 1
		}
		kept = append(kept, b)
		runtime.KeepAlive(kept)
	}
}
