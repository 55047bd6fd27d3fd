// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command driver-exec is the plugin of the drivers that run processes of the machine.
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
