// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

// Command sandbox is a task driver plugin for Drover.
package main

import (
	"fmt"
	"os"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/plugin"

	"github.com/drover-project/drover/examples/plugins/sandbox/sandbox"
)

// version is set by the Makefile.
var version = "dev"

func main() {
	// The plugin starts itself once for each task: see runner.go.
	if len(os.Args) == 3 && os.Args[1] == sandbox.RunnerCommand {
		os.Exit(sandbox.Run(os.Args[2]))
	}
	info := plugin.Info{Name: "sandbox", Version: version}
	if err := plugin.Serve(info, driver.Service(sandbox.New())); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
