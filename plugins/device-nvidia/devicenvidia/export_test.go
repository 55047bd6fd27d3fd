// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devicenvidia

import "time"

// SetRoot has paths of the machine looked for below dir.
func (d *Device) SetRoot(dir string) { d.root = dir }

// SetLimit bounds the library's answers.
func (d *Device) SetLimit(limit time.Duration) { d.nvml.limit = limit }
