// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package kinds

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
)

// endLeftovers ends nothing: other systems do not show the environment of processes.
func (d *Drivers) endLeftovers(context.Context, *driver.TaskConfig, time.Time) int { return 0 }

// bornBefore is not asked on other systems, where no process is moved.
func bornBefore(int, time.Time) bool { return false }
