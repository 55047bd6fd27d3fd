// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverexec

import (
	"runtime"

	"github.com/drover-project/drover/plugins/internal/supervised"
	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// shared implements the part of the contract that is the same for all drivers of
// this plugin.
type shared struct {
	*supervised.Tasks
	// userOf resolves a user by name or id. It refuses users that tasks of the driver may
	// not have.
	userOf func(name string) (*supervisor.User, error)
}

func newShared(dir string, userOf func(string) (*supervisor.User, error)) shared {
	return shared{supervised.New("driver-exec", dir), userOf}
}

// execOptions are the options of ExecTask that the drivers of this plugin have.
func execOptions() []string {
	if runtime.GOOS == "windows" {
		return nil
	}
	return []string{driver.ExecUser, driver.ExecDirectory, driver.ExecEnvironment}
}
