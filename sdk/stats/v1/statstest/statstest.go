// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package statstest checks in tests that a collector keeps the contract of
// sdk/stats/v1. It runs the checks of statscheck in three ways: in process, over gRPC,
// and against a real plugin process that is killed. It owns no checks and no
// collector. Only tests import it:
//
//	func TestContract(t *testing.T) {
//		statstest.Run(t, statstest.Options{New: func(t *testing.T) stats.Collector { return coolant.New() }})
//	}
package statstest

import (
	"os/exec"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	"github.com/drover-project/drover/sdk/plugin/plugintest"
	stats "github.com/drover-project/drover/sdk/stats/v1"
	"github.com/drover-project/drover/sdk/stats/v1/statscheck"
)

// Options selects the collector to check and the ways in which it is checked.
type Options struct {
	// New returns a collector in the state of a freshly started process. If New is
	// nil, the checks in process and over gRPC are left out.
	New func(t *testing.T) stats.Collector
	// Binary is the path of a built plugin, Args and Env its arguments and
	// environment, and Name the collector in it. If Binary is empty, the checks
	// against a real process are left out.
	Binary string
	Args   []string
	Env    []string
	Name   string
	// Config is the agent config; nil means empty.
	Config map[string]any
	// Timeout limits each check; 0 means 2 min. Interval is the interval at which the
	// collector has to measure; 0 means 50 ms.
	Timeout  time.Duration
	Interval time.Duration
}

// Run runs all checks in every way that opts selects.
func Run(t *testing.T, opts Options) {
	t.Helper()
	if opts.New == nil && opts.Binary == "" {
		t.Fatal("statstest: set New, Binary or both")
	}
	if opts.New != nil {
		t.Run("in process", func(t *testing.T) { all(t, opts, inProcess, true) })
		t.Run("over gRPC", func(t *testing.T) { all(t, opts, overGRPC, false) })
	}
	if opts.Binary != "" {
		t.Run("as a plugin process", func(t *testing.T) { all(t, opts, asProcess, false) })
	}
}

// connect returns a fresh collector and a function that kills its process.
type connect func(t *testing.T, opts Options) (stats.Collector, func())

// all runs each check as a subtest with the check's name.
func all(t *testing.T, opts Options, connect connect, here bool) {
	for _, c := range statscheck.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			plugintest.Report(t, c.Run(t.Context(), statscheck.Subject{
				Connect: func(*conformance.T) (stats.Collector, func()) { return connect(t, opts) },
				Config:  opts.Config, Timeout: opts.Timeout, Interval: opts.Interval, InProcess: here,
			}))
		})
	}
}

func inProcess(t *testing.T, opts Options) (stats.Collector, func()) {
	return opts.New(t), func() {}
}

func overGRPC(t *testing.T, opts Options) (stats.Collector, func()) {
	t.Helper()
	conn, die := plugintest.Serve(t, stats.Service(opts.New(t)))
	collectors, err := stats.Connect(t.Context(), conn)
	if err != nil || len(collectors) != 1 {
		t.Fatalf("connect: %d collectors, %v", len(collectors), err)
	}
	return collectors[0], die
}

func asProcess(t *testing.T, opts Options) (stats.Collector, func()) {
	t.Helper()
	cmd := exec.Command(opts.Binary, opts.Args...)
	cmd.Env = opts.Env
	conn, die := plugintest.Launch(t, cmd)
	collectors, err := stats.Connect(t.Context(), conn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	for _, c := range collectors {
		if opts.Name == "" || c.Info().Name == opts.Name {
			return c, die
		}
	}
	t.Fatalf("plugin %s has no collector %q", opts.Binary, opts.Name)
	return nil, nil
}
