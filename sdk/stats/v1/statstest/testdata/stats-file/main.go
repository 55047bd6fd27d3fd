// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command stats-file runs the example collector as a plugin.
package main

import (
	"fmt"
	"os"

	"github.com/drover-project/drover/sdk/plugin"
	stats "github.com/drover-project/drover/sdk/stats/v1"
	"github.com/drover-project/drover/sdk/stats/v1/statstest/filestats"
)

func main() {
	if err := plugin.Serve(plugin.Info{Name: "stats-file", Version: "1.0.0"}, stats.Service(filestats.New("file"))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
