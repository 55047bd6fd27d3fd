// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command network-file runs the example of networks as a plugin.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	network "github.com/drover-project/drover/sdk/network/v1"
	"github.com/drover-project/drover/sdk/network/v1/networktest/filenetwork"
	"github.com/drover-project/drover/sdk/plugin"
)

func main() {
	dir := filepath.Join(os.Getenv(plugin.StateDirEnv), "networks")
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = plugin.Serve(plugin.Info{Name: "network-file", Version: "1.0.0"}, network.Service(filenetwork.New("file", dir)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
