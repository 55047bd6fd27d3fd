// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package confine

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	// alienSyscalls is the first number of the calls of x32, another architecture.
	alienSyscalls = 0x40000000
)

// archRefused are further refused calls of this processor.
var archRefused = []uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE, unix.SYS_MODIFY_LDT, unix.SYS_USELIB}
