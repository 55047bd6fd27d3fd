// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command shellplugin is a driver plugin for tests, which link it with different
// versions.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest/shelldriver"
	"github.com/drover-project/drover/sdk/plugin"
)

// version is set by the linker. Version "broken" does not start.
var version = "0.0.0"

// shell hangs while it validates a script with the words "hang in validation", whatever its
// caller thinks of that.
type shell struct{ *shelldriver.Driver }

func (s shell) ValidateTask(ctx context.Context, task *driver.TaskDraft) ([]driver.Diagnostic, error) {
	if bytes.Contains(task.DriverConfig, []byte("hang in validation")) {
		select {}
	}
	return s.Driver.ValidateTask(ctx, task)
}

func main() {
	if version == "broken" {
		fmt.Fprintln(os.Stderr, "this version is broken")
		os.Exit(1)
	}
	if err := plugin.Serve(plugin.Info{Name: "driver-shell", Version: version}, driver.Service(shell{shelldriver.New("shell")})); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
