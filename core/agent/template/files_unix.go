// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package template

import "syscall"

// nonblock opens a pipe that nobody writes to without waiting.
const nonblock = syscall.O_NONBLOCK
