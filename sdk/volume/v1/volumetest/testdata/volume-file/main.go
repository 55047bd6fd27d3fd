// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command volume-file runs the example of volumes as a plugin.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/drover-project/drover/sdk/plugin"
	volume "github.com/drover-project/drover/sdk/volume/v1"
	"github.com/drover-project/drover/sdk/volume/v1/volumetest/filevolume"
)

func main() {
	v := filevolume.New("file", filepath.Join(os.Getenv(plugin.StateDirEnv), "volumes"))
	if err := plugin.Serve(plugin.Info{Name: "volume-file", Version: "1.0.0"}, volume.Service(v)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
