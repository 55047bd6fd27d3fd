// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package sdnotify

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// monotonic returns the time of the clock by which systemd orders reloads.
func monotonic() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, fmt.Errorf("read the monotonic clock: %w", err)
	}
	return time.Duration(t.Nano()), nil
}
