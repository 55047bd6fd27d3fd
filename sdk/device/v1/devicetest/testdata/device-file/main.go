// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command device-file runs the example device plugin as a process.
package main

import (
	"fmt"
	"os"

	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/device/v1/devicetest/filedevice"
	"github.com/drover-project/drover/sdk/plugin"
)

func main() {
	if err := plugin.Serve(plugin.Info{Name: "device-file", Version: "0.1.0"}, device.Service(filedevice.New("file"))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
