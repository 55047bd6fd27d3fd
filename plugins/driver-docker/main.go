// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command driver-docker is the plugin with the task driver docker.
package main

import (
	"fmt"
	"os"

	"github.com/drover-project/drover/plugins/driver-docker/driverdocker"
	_ "github.com/drover-project/drover/sdk/plugin/oneproc" // each process is 0.4 MiB smaller
)

func main() {
	if err := driverdocker.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
