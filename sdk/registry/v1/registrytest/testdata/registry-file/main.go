// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command registry-file is the example as a plugin.
package main

import (
	"fmt"
	"os"

	"github.com/drover-project/drover/sdk/plugin"
	registry "github.com/drover-project/drover/sdk/registry/v1"
	"github.com/drover-project/drover/sdk/registry/v1/registrytest/fileregistry"
)

func main() {
	if err := plugin.Serve(plugin.Info{Name: "registry-file", Version: "1.0.0"}, registry.Service(fileregistry.New("file", "services.json"))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
