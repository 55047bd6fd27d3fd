// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command network-bridge is the plugin that gives allocs networks of their own, behind a bridge of the machine.
package main

import (
	"fmt"
	"os"

	"github.com/drover-project/drover/plugins/network-bridge/networkbridge"
)

func main() {
	if err := networkbridge.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
