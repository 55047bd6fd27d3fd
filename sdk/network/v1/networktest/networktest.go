// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package networktest checks in tests that a network plugin keeps the contract of
// sdk/network/v1. It runs the checks of networkcheck in three ways: in process, over
// gRPC, and against a real plugin process that is killed. It owns no checks and no
// plugin. Only tests import it:
//
//	func TestContract(t *testing.T) {
//		networktest.Run(t, networktest.Options{New: func(t *testing.T) network.Network { return vxlan.New(t.TempDir()) }})
//	}
package networktest

import (
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	network "github.com/drover-project/drover/sdk/network/v1"
	"github.com/drover-project/drover/sdk/network/v1/networkcheck"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/plugin/plugintest"
)

// Options selects the plugin to check and the ways in which it is checked.
type Options struct {
	// New returns a plugin in the state of a freshly started process. All that it returns
	// in one test share their state, as processes of one plugin do. If New is nil, the
	// checks in process and over gRPC are left out.
	New func(t *testing.T) network.Network
	// Binary is the path of a built plugin, Env its environment, Dir its working
	// directory, and Name the network plugin in it. If Binary is empty, the checks
	// against a real process are left out.
	Binary string
	Env    []string
	Dir    string
	Name   string
	// Config is the agent config; nil means empty.
	Config map[string]any
	// Network is the network to check; "" means the first of the fingerprint.
	Network string
	// Timeout bounds each check; 0 means 2 min.
	Timeout time.Duration
	// MayBeAbsent allows a machine without networks: the plugin must then report a
	// Problem, and the checks that need a network are skipped.
	MayBeAbsent bool
}

// Run runs all checks in every way that opts selects.
func Run(t *testing.T, opts Options) {
	t.Helper()
	plugintest.Subject[network.Network]{
		New: opts.New, Binary: opts.Binary, Env: opts.Env, Dir: opts.Dir, Name: opts.Name,
		Service: func(p network.Network) plugin.Service { return network.Service(p) }, Connect: network.Connect, NameOf: func(p network.Network) string { return p.Info().Name },
	}.Ways(t, func(t *testing.T, way plugintest.Way[network.Network]) {
		for _, c := range networkcheck.Checks() {
			t.Run(c.Name, func(t *testing.T) {
				plugintest.Report(t, c.Run(t.Context(), networkcheck.Subject{
					Connect: func(*conformance.T) (network.Network, func()) { return way.Connect(t) },
					Config:  opts.Config, Network: opts.Network, Timeout: opts.Timeout, MayBeAbsent: opts.MayBeAbsent,
				}))
			})
		}
	})
}
