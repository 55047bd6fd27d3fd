// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command device-nvidia is the plugin that offers NVIDIA GPUs to tasks. It is not
// part of drover-plugins: because it opens a library at run time it must be linked
// dynamically, and the other plugins are linked statically.
package main

import (
	"fmt"
	"os"

	"github.com/drover-project/drover/plugins/device-nvidia/devicenvidia"
)

func main() {
	if err := devicenvidia.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
