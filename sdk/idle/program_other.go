// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package idle

// releaseProgram does nothing: only Linux is asked.
func releaseProgram() {}
