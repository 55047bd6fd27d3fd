// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command stats-host is the plugin that measures the resource usage of the machine.
package main

import (
	"fmt"
	"os"

	"github.com/drover-project/drover/plugins/stats-host/statshost"
)

func main() {
	if err := statshost.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
