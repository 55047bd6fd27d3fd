// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package driverqemu is the task driver qemu: tasks are virtual machines of a QEMU
// system emulator. It owns what a task's config means to QEMU: which images, options
// and emulators a job may use, how a VM is asked to shut down, and what its guest
// agent reports. The node's supervisor (plugins/internal/supervised) owns the
// process, its logs and its exit code, so that nothing is lost when this process
// dies. Only plugins/driver-qemu and cmd/drover-plugins import it.
//
// # From job to VM
//
// StartTask converts the config to a launch: an emulator, its arguments, and the
// names of the files in them. The supervisor starts this binary with the launch (see
// Main). That process opens each file below an allowed directory, without following
// links, as the task's user; creates the sockets; and becomes the emulator by exec.
// QEMU gets descriptors instead of paths, because a path could lead to another file
// by then. It is also told the format and the backing files of each disk instead of
// probing them, because otherwise a guest could write into its raw disk a header
// that names a file of the machine. If QEMU rejects a launch, StartTask fails with
// QEMU's message.
package driverqemu

import (
	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/plugin"
)

// Version is the plugin's version.
const Version = "0.1.0"

// Main runs the plugin: it serves the driver or, depending on the arguments, is the
// supervisor or becomes an emulator.
func Main() error {
	supervisor.Main()
	if err := launchMain(); err != nil {
		return err
	}
	return plugin.Serve(plugin.Info{Name: "driver-qemu", Version: Version}, driver.Service(New(plugin.StateDir())))
}
