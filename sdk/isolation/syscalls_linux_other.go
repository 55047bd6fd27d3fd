// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux && !(amd64 || arm64)

package isolation

// Filters are never built for this architecture, because it has no loader.
const (
	auditArch     = 0
	newestSyscall = 0
)

var (
	commonSyscalls, archSyscalls []uint32
	capSyscalls                  map[int][]uint32
)
