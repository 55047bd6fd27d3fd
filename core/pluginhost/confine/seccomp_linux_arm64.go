// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package confine

import "golang.org/x/sys/unix"

const (
	auditArch     = unix.AUDIT_ARCH_AARCH64
	alienSyscalls = 0x80000000 // there are none
)

var archRefused []uint32
