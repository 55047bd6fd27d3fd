// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command shellplugin is a driver plugin for tests, which link it with different
// versions.
package main

import (
	"fmt"
	"os"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest/shelldriver"
	"github.com/drover-project/drover/sdk/plugin"
)

// version is set by the linker. Version "broken" does not start.
var version = "0.0.0"

func main() {
	if version == "broken" {
		fmt.Fprintln(os.Stderr, "this version is broken")
		os.Exit(1)
	}
	if err := plugin.Serve(plugin.Info{Name: "driver-shell", Version: version}, driver.Service(shelldriver.New("shell"))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
