// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package sdnotify

import "time"

// monotonic is not used where there is no systemd.
func monotonic() (time.Duration, error) { return 0, nil }
