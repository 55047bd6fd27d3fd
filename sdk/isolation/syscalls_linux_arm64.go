// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// archSyscalls are the allowed calls that exist only on this architecture. There are
// none.
var archSyscalls []uint32
