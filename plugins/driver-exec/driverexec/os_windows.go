// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build windows

package driverexec

import (
	"context"
	"strconv"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

const defaultStopSignal = "SIGKILL"

// signalNumber knows what Windows knows: the kill.
func signalNumber(name, fallback string) (int, error) {
	if name == "" {
		name = fallback
	}
	switch name {
	case "SIGKILL", "KILL", "9", "SIGINT", "INT", "2", "SIGTERM", "TERM", "15":
		return 9, nil
	}
	if _, err := strconv.Atoi(name); err == nil {
		return 0, errdefs.InvalidArgumentf("signal %s does not exist on Windows; use SIGKILL", name)
	}
	return 0, errdefs.InvalidArgumentf("signal %q is unknown; use SIGKILL", name)
}

func resolveUser(name string) (*supervisor.User, error) {
	if name != "" {
		return nil, errdefs.Unimplementedf("running a task as another user is not possible on Windows; leave user empty")
	}
	return nil, nil
}

func (t *tasks) exec(context.Context, string, driver.ExecOptions, driver.ExecStream) (driver.ExitResult, error) {
	return driver.ExitResult{}, errdefs.Unimplementedf("exec into a raw_exec task is not possible on Windows yet")
}
