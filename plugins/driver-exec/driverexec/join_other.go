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

// beside returns a function that calls another one. Namespaces exist only on Linux.
func beside(context.Context, *supervisor.Client, *supervisor.Spec) (in inside, leave func(), err error) {
	return func(f func() error) error { return f() }, func() {}, nil
}

// onItsCores changes nothing: nothing binds tasks to cores.
func onItsCores(_ supervisor.Status, in inside) inside { return in }

func join(context.Context, *supervisor.Client, *supervisor.Spec, *ownGroup, driver.ExecOptions, driver.ExecStream) (driver.ExitResult, error) {
	return driver.ExitResult{}, errdefs.Unimplementedf("exec in an isolated task: %s", unavailable())
}
