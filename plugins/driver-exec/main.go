// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command driver-exec is the plugin with the task drivers that run processes on the
// machine: exec, java and raw_exec.
package main

import (
	"fmt"
	"os"

	"github.com/drover-project/drover/plugins/driver-exec/driverexec"
)

func main() {
	if err := driverexec.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
