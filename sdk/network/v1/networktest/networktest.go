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
	"os/exec"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	network "github.com/drover-project/drover/sdk/network/v1"
	"github.com/drover-project/drover/sdk/network/v1/networkcheck"
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
	if opts.New == nil && opts.Binary == "" {
		t.Fatal("networktest: set New, Binary or both")
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
type connect func(t *testing.T, opts Options) (network.Network, func())

// all runs each check as a subtest with the check's name.
func all(t *testing.T, opts Options, connect connect) {
	for _, c := range networkcheck.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			plugintest.Report(t, c.Run(t.Context(), networkcheck.Subject{
				Connect: func(*conformance.T) (network.Network, func()) { return connect(t, opts) },
				Config:  opts.Config, Network: opts.Network, Timeout: opts.Timeout, MayBeAbsent: opts.MayBeAbsent,
			}))
		})
	}
}

func inProcess(t *testing.T, opts Options) (network.Network, func()) {
	return opts.New(t), func() {}
}

func overGRPC(t *testing.T, opts Options) (network.Network, func()) {
	t.Helper()
	conn, die := plugintest.Serve(t, network.Service(opts.New(t)))
	all, err := network.Connect(t.Context(), conn)
	if err != nil || len(all) != 1 {
		t.Fatalf("connect: %d network plugins, %v", len(all), err)
	}
	return all[0], die
}

func asProcess(t *testing.T, opts Options) (network.Network, func()) {
	t.Helper()
	cmd := exec.Command(opts.Binary)
	cmd.Env, cmd.Dir = opts.Env, opts.Dir
	conn, die := plugintest.Launch(t, cmd)
	all, err := network.Connect(t.Context(), conn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	for _, n := range all {
		if opts.Name == "" || n.Info().Name == opts.Name {
			return n, die
		}
	}
	t.Fatalf("plugin %s has no network plugin %q", opts.Binary, opts.Name)
	return nil, nil
}
