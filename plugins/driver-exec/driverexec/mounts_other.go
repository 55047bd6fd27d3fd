// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package driverexec

import (
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/isolation"
)

func mayMount() bool { return false }

// rawMounts refuses mounts: there are mount namespaces only on Linux.
func rawMounts(task *driver.TaskConfig) ([]isolation.Bind, error) {
	if len(task.Mounts) == 0 {
		return nil, nil
	}
	return nil, errdefs.InvalidArgumentf("tasks of raw_exec have mounts on Linux only; let the task use the path of the machine")
}
