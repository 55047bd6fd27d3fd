// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command driver-qemu is the plugin with the task driver qemu, which runs virtual
// machines.
package main

import (
	"fmt"
	"os"

	"github.com/drover-project/drover/plugins/driver-qemu/driverqemu"
)

func main() {
	if err := driverqemu.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
