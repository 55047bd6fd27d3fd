// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix && !linux

package driverexec

import (
	"context"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// inNetwork calls start. Network namespaces exist only on Linux.
func inNetwork(_ string, start func() error) error { return start() }

func join(context.Context, *supervisor.Client, *supervisor.Spec, driver.ExecOptions, driver.ExecStream) (driver.ExitResult, error) {
	return driver.ExitResult{}, errdefs.Unimplementedf("exec in an isolated task: %s", unavailable())
}
