// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux && !(amd64 || arm64)

package sandbox

// There is no loader for this architecture, so no filter is ever made.
const (
	auditArch     = 0
	newestSyscall = 0
)

var (
	commonSyscalls, archSyscalls []uint32
	capSyscalls                  map[int][]uint32
)
