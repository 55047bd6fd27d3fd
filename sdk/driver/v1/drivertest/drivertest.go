// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package drivertest checks in tests that a task driver keeps the contract of
// sdk/driver/v1. It runs the checks of drivercheck in three ways: in process, over
// gRPC, and against a real plugin process that is killed. It owns no checks and no
// driver. Only tests import it:
//
//	func TestContract(t *testing.T) {
//		drivertest.Run(t, drivertest.Options{
//			New:    func(t *testing.T) driver.Driver { return rawexec.New() },
//			Script: func(s string) map[string]any { return map[string]any{"command": "/bin/sh", "args": []any{"-c", s}} },
//		})
//	}
package drivertest

import (
	"os"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivercheck"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/plugin/plugintest"
)

// Options selects the driver to check and the ways in which it is checked.
type Options struct {
	// New returns a driver in the state of a freshly started process: tasks of an
	// earlier one are unknown to it until they are recovered. If New is nil, the
	// checks in process and over gRPC are left out.
	New func(t *testing.T) driver.Driver
	// Binary is the path of a built plugin, Env its environment, and Name the driver
	// in it. If Binary is empty, the checks against a real process are left out.
	Binary string
	Env    []string
	Name   string
	// Script returns the task config that runs a /bin/sh script.
	Script func(script string) map[string]any
	// Config is the agent config; nil means empty.
	Config map[string]any
	// Task, if set, changes each task's config before it starts.
	Task func(*driver.TaskConfig)
	// Timeout limits each check; 0 means 2 min. Drivers that pull images may need more.
	Timeout time.Duration
	// NoRotation leaves out the check that log files rotate.
	NoRotation bool
	// Parallel runs the checks at the same time, as many as go test -parallel allows:
	// most of their time is waiting. It is for drivers whose processes share nothing.
	Parallel bool
}

// Run runs all checks in every way that opts selects.
func Run(t *testing.T, opts Options) {
	t.Helper()
	t.Setenv(drivercheck.SecretVariable, "of-the-agent")
	env := append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), drivercheck.SecretVariable + "=of-the-agent"}, opts.Env...)
	plugintest.Subject[driver.Driver]{
		New: opts.New, Binary: opts.Binary, Env: env, Name: opts.Name,
		Service: func(p driver.Driver) plugin.Service { return driver.Service(p) }, Connect: driver.Connect, NameOf: func(p driver.Driver) string { return p.Info().Name },
	}.Ways(t, func(t *testing.T, way plugintest.Way[driver.Driver]) {
		if opts.Parallel {
			t.Parallel()
		}
		for _, c := range drivercheck.Checks() {
			t.Run(c.Name, func(t *testing.T) {
				if opts.Parallel {
					t.Parallel()
				}
				plugintest.Report(t, c.Run(t.Context(), drivercheck.Subject{
					Connect: func(*conformance.T) (driver.Driver, func()) { return way.Connect(t) },
					Config:  opts.Config, Script: opts.Script, Task: opts.Task, Timeout: opts.Timeout, NoRotation: opts.NoRotation,
					InProcess: way.InProcess, Process: way.Process, Executable: opts.Binary,
				}))
			})
		}
	})
}
