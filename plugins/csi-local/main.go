// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command csi-local is a CSI driver for volumes on the machine's own disk.
package main

import (
	"fmt"
	"os"

	"github.com/drover-project/drover/plugins/csi-local/csilocal"
)

func main() {
	if err := csilocal.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
