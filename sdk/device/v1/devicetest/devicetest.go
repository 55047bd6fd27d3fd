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
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/device/v1/devicecheck"
	"github.com/drover-project/drover/sdk/plugin"
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
	plugintest.Subject[device.Device]{
		New: opts.New, Binary: opts.Binary, Env: opts.Env, Name: opts.Name,
		Service: func(p device.Device) plugin.Service { return device.Service(p) }, Connect: device.Connect, NameOf: func(p device.Device) string { return p.Info().Name },
	}.Ways(t, func(t *testing.T, way plugintest.Way[device.Device]) {
		for _, c := range devicecheck.Checks() {
			t.Run(c.Name, func(t *testing.T) {
				plugintest.Report(t, c.Run(t.Context(), devicecheck.Subject{
					Connect: func(*conformance.T) (device.Device, func()) { return way.Connect(t) },
					Config:  opts.Config, Timeout: opts.Timeout, MayBeAbsent: opts.MayBeAbsent,
				}))
			})
		}
	})
}
