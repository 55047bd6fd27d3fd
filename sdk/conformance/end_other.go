// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package conformance

// Processes cannot find processes on this system.
func Processes(string) map[int]int { return nil }

// EndProcesses cannot find processes by their environment on this system.
func EndProcesses(string) {}
