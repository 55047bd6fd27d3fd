// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command driver-shell is a complete plugin, which shows that a main function needs no
// more than this.
package main

import (
	"fmt"
	"os"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest/shelldriver"
	"github.com/drover-project/drover/sdk/plugin"
)

func main() {
	if err := plugin.Serve(plugin.Info{Name: "driver-shell", Version: "0.1.0"}, driver.Service(shelldriver.New("shell"))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
