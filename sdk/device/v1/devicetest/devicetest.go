// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package devicetest checks in tests that a device plugin keeps the contract of
// sdk/device/v1. It runs the checks of devicecheck in three ways: in process, over
// gRPC, and against a real plugin process that is killed. It owns no checks and no
// plugin. Only tests import it:
//
//	func TestContract(t *testing.T) {
//		devicetest.Run(t, devicetest.Options{New: func(t *testing.T) device.Device { return fpga.New() }})
//	}
package devicetest

import (
	"os/exec"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/device/v1/devicecheck"
	"github.com/drover-project/drover/sdk/plugin/plugintest"
)

// Options selects the plugin to check and the ways in which it is checked.
type Options struct {
	// New returns a plugin in the state of a freshly started process. If New is nil,
	// the checks in process and over gRPC are left out.
	New func(t *testing.T) device.Device
	// Binary is the path of a built plugin, Env its environment, and Name the device
	// plugin in it. If Binary is empty, the checks against a real process are left
	// out.
	Binary string
	Env    []string
	Name   string
	// Config is the agent config; nil means empty.
	Config map[string]any
	// Timeout bounds each check; 0 means 2 min.
	Timeout time.Duration
	// MayBeAbsent allows a machine without devices: the plugin must then report a
	// Problem, and the checks that need a device are skipped.
	MayBeAbsent bool
}

// Run runs all checks in every way that opts selects.
func Run(t *testing.T, opts Options) {
	t.Helper()
	if opts.New == nil && opts.Binary == "" {
		t.Fatal("devicetest: set New, Binary or both")
	}
	if opts.New != nil {
		t.Run("in process", func(t *testing.T) { all(t, opts, inProcess) })
		t.Run("over gRPC", func(t *testing.T) { all(t, opts, overGRPC) })
	}
	if opts.Binary != "" {
		t.Run("as a plugin process", func(t *testing.T) { all(t, opts, asProcess) })
	}
}

// connect returns a fresh plugin and a function that kills its process.
type connect func(t *testing.T, opts Options) (device.Device, func())

// all runs each check as a subtest with the check's name.
func all(t *testing.T, opts Options, connect connect) {
	for _, c := range devicecheck.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			plugintest.Report(t, c.Run(t.Context(), devicecheck.Subject{
				Connect: func(*conformance.T) (device.Device, func()) { return connect(t, opts) },
				Config:  opts.Config, Timeout: opts.Timeout, MayBeAbsent: opts.MayBeAbsent,
			}))
		})
	}
}

func inProcess(t *testing.T, opts Options) (device.Device, func()) {
	return opts.New(t), func() {}
}

func overGRPC(t *testing.T, opts Options) (device.Device, func()) {
	t.Helper()
	conn, die := plugintest.Serve(t, device.Service(opts.New(t)))
	devices, err := device.Connect(t.Context(), conn)
	if err != nil || len(devices) != 1 {
		t.Fatalf("connect: %d device plugins, %v", len(devices), err)
	}
	return devices[0], die
}

func asProcess(t *testing.T, opts Options) (device.Device, func()) {
	t.Helper()
	cmd := exec.Command(opts.Binary)
	cmd.Env = opts.Env
	conn, die := plugintest.Launch(t, cmd)
	devices, err := device.Connect(t.Context(), conn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	for _, d := range devices {
		if opts.Name == "" || d.Info().Name == opts.Name {
			return d, die
		}
	}
	t.Fatalf("plugin %s has no device plugin %q", opts.Binary, opts.Name)
	return nil, nil
}
