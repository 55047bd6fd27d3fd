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
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	"github.com/drover-project/drover/sdk/plugin"
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
	plugintest.Subject[stats.Collector]{
		New: opts.New, Binary: opts.Binary, Args: opts.Args, Env: opts.Env, Name: opts.Name,
		Service: func(p stats.Collector) plugin.Service { return stats.Service(p) }, Connect: stats.Connect, NameOf: func(p stats.Collector) string { return p.Info().Name },
	}.Ways(t, func(t *testing.T, way plugintest.Way[stats.Collector]) {
		for _, c := range statscheck.Checks() {
			t.Run(c.Name, func(t *testing.T) {
				plugintest.Report(t, c.Run(t.Context(), statscheck.Subject{
					Connect: func(*conformance.T) (stats.Collector, func()) { return way.Connect(t) },
					Config:  opts.Config, Timeout: opts.Timeout, Interval: opts.Interval, InProcess: way.InProcess,
				}))
			})
		}
	})
}
