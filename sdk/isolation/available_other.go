// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package isolation

import "runtime"

// Unavailable says why this machine cannot isolate tasks.
func Unavailable() string { return "isolation is only supported on linux, this is " + runtime.GOOS }
