// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux && !amd64 && !arm64

package confine

// Without an auditArch there is no filter.
const (
	auditArch     = 0
	alienSyscalls = 0x80000000
)

var archRefused []uint32
