// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devicenvidia

import "time"

// SetRoot makes paths of the machine relative to dir.
func (d *Device) SetRoot(dir string) { d.root = dir }

// SetLimit sets the time limit of library calls.
func (d *Device) SetLimit(limit time.Duration) { d.nvml.limit = limit }
