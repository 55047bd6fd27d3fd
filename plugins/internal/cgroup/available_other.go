// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package cgroup

import "runtime"

// Unavailable says why this machine cannot limit tasks.
func Unavailable() string { return "cgroups exist only on linux, this is " + runtime.GOOS }
