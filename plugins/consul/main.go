// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command consul is the plugin that registers services in Consul.
package main

import (
	"fmt"
	"os"

	"github.com/drover-project/drover/plugins/consul/consulplugin"
)

func main() {
	if err := consulplugin.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
