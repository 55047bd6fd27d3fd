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
	"os/exec"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivercheck"
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
	if opts.New == nil && opts.Binary == "" {
		t.Fatal("drivertest: set New, Binary or both")
	}
	t.Setenv(drivercheck.SecretVariable, "of-the-agent")
	if opts.New != nil {
		t.Run("in process", func(t *testing.T) { all(t, opts, inProcess, true, false) })
		t.Run("over gRPC", func(t *testing.T) { all(t, opts, overGRPC, false, false) })
	}
	if opts.Binary != "" {
		t.Run("as a plugin process", func(t *testing.T) { all(t, opts, asProcess, false, true) })
	}
}

// connect returns a fresh driver and a function that kills its process.
type connect func(t *testing.T, opts Options) (driver.Driver, func())

// all runs each check as a subtest with the check's name.
func all(t *testing.T, opts Options, connect connect, here, process bool) {
	if opts.Parallel {
		t.Parallel()
	}
	for _, c := range drivercheck.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			if opts.Parallel {
				t.Parallel()
			}
			plugintest.Report(t, c.Run(t.Context(), drivercheck.Subject{
				Connect: func(*conformance.T) (driver.Driver, func()) { return connect(t, opts) },
				Config:  opts.Config, Script: opts.Script, Task: opts.Task, Timeout: opts.Timeout, NoRotation: opts.NoRotation, InProcess: here, Process: process,
			}))
		})
	}
}

func inProcess(t *testing.T, opts Options) (driver.Driver, func()) {
	return opts.New(t), func() {}
}

func overGRPC(t *testing.T, opts Options) (driver.Driver, func()) {
	t.Helper()
	conn, die := plugintest.Serve(t, driver.Service(opts.New(t)))
	drivers, err := driver.Connect(t.Context(), conn)
	if err != nil || len(drivers) != 1 {
		t.Fatalf("connect: %d drivers, %v", len(drivers), err)
	}
	return drivers[0], die
}

// asProcess launches the plugin as a host does. The returned function kills it with
// SIGKILL.
func asProcess(t *testing.T, opts Options) (driver.Driver, func()) {
	t.Helper()
	cmd := exec.Command(opts.Binary)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), drivercheck.SecretVariable + "=of-the-agent"}
	cmd.Env = append(cmd.Env, opts.Env...)
	conn, die := plugintest.Launch(t, cmd)
	drivers, err := driver.Connect(t.Context(), conn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	for _, d := range drivers {
		if d.Info().Name == opts.Name || opts.Name == "" {
			return d, die
		}
	}
	t.Fatalf("plugin %s has no driver %q", opts.Binary, opts.Name)
	return nil, nil
}
