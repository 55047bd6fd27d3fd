// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverexec

import "github.com/drover-project/drover/plugins/internal/supervised"

// shared implements the part of the contract that is the same for all drivers of
// this plugin.
type shared struct{ *supervised.Tasks }

func newShared(dir string) shared { return shared{supervised.New("driver-exec", dir)} }
