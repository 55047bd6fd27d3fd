// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command network-cni is the plugin that gives allocs the networks that CNI configurations of the machine describe.
package main

import (
	"fmt"
	"os"

	"github.com/drover-project/drover/plugins/network-cni/networkcni"
)

func main() {
	if err := networkcni.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
