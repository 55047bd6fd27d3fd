// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package registrytest checks in tests that a registry keeps the contract of
// sdk/registry/v1. It runs the checks of registrycheck in three ways: in process, over
// gRPC, and against a real plugin process that is killed. It owns no checks and no
// plugin. Only tests import it:
//
//	func TestContract(t *testing.T) {
//		registrytest.Run(t, registrytest.Options{New: func(t *testing.T) registry.Registry { return etcd.New(t.TempDir()) }})
//	}
package registrytest

import (
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/plugin/plugintest"
	registry "github.com/drover-project/drover/sdk/registry/v1"
	"github.com/drover-project/drover/sdk/registry/v1/registrycheck"
)

// Options selects the plugin to check and the ways in which it is checked.
type Options struct {
	// New returns a plugin in the state of a freshly started process. All that it returns
	// in one test share their state, as processes of one plugin do. If New is nil, the
	// checks in process and over gRPC are left out.
	New func(t *testing.T) registry.Registry
	// Binary is the path of a built plugin, Env its environment, Dir its working
	// directory, and Name the registry in it. If Binary is empty, the checks
	// against a real process are left out.
	Binary string
	Env    []string
	Dir    string
	Name   string
	// Config is the agent config; nil means empty.
	Config map[string]any
	// Timeout bounds each check; 0 means 2 min.
	Timeout time.Duration
	// MayBeAbsent allows a machine from which the cluster cannot be reached: it must then have
	// a Problem, and the checks that need it are skipped.
	MayBeAbsent bool
}

// Run runs all checks in every way that opts selects.
func Run(t *testing.T, opts Options) {
	t.Helper()
	plugintest.Subject[registry.Registry]{
		New: opts.New, Binary: opts.Binary, Env: opts.Env, Dir: opts.Dir, Name: opts.Name,
		Service: func(p registry.Registry) plugin.Service { return registry.Service(p) }, Connect: registry.Connect, NameOf: func(p registry.Registry) string { return p.Info().Name },
	}.Ways(t, func(t *testing.T, way plugintest.Way[registry.Registry]) {
		for _, c := range registrycheck.Checks() {
			t.Run(c.Name, func(t *testing.T) {
				plugintest.Report(t, c.Run(t.Context(), registrycheck.Subject{
					Connect: func(*conformance.T) (registry.Registry, func()) { return way.Connect(t) },
					Config:  opts.Config, Timeout: opts.Timeout, MayBeAbsent: opts.MayBeAbsent,
				}))
			})
		}
	})
}
