// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command csi is the plugin that brings volumes of CSI drivers to tasks.
package main

import (
	"fmt"
	"os"

	"github.com/drover-project/drover/plugins/csi/csiplugin"
)

func main() {
	if err := csiplugin.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
