// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package driverqemu is the driver qemu: tasks as virtual machines of a QEMU system
// emulator. It owns what a task's config means to QEMU: which image, which options
// and which emulator a job may use, how a machine is asked to end, and what its guest
// agent says. It does not own the process, its logs and its end: those are the node's
// supervisor's (plugins/internal/supervised), so that nothing is lost when this
// process dies. Only plugins/driver-qemu and cmd/drover-plugins import it.
//
// # From job to machine
//
// StartTask turns the config into a launch: an emulator, its arguments, and the files
// that go with them by name. The supervisor starts this binary with it (see Main), and
// that process opens each file beneath a directory where images may be, without
// following a link, as the task's user; makes the sockets; and becomes the emulator.
// QEMU gets descriptors, never a path that could mean something else by then, and the
// format and backing files of each disk are said to it, never left to its guess: what
// a guest writes into its raw disk cannot become a header that names a file of the
// machine. A launch that QEMU refuses fails StartTask with QEMU's own words.
package driverqemu

import (
	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/plugin"
)

// Version is the plugin's version.
const Version = "0.1.0"

// Main is the plugin's main: it serves the driver, is the supervisor, or becomes an
// emulator.
func Main() error {
	supervisor.Main()
	if err := launchMain(); err != nil {
		return err
	}
	return plugin.Serve(plugin.Info{Name: "driver-qemu", Version: Version}, driver.Service(New(plugin.StateDir())))
}
