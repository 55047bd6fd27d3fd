// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build windows

package driverexec

import (
	"context"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// ExecTask implements driver.Driver.
func (d shared) ExecTask(context.Context, string, driver.ExecOptions, driver.ExecStream) (driver.ExitResult, error) {
	return driver.ExitResult{}, errdefs.Unimplementedf("exec into a raw_exec task is not possible on Windows yet")
}
