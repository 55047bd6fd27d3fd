// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix && !linux

package driverexec

import "os/exec"

// ownGroup does not exist: cgroups exist only on Linux.
type ownGroup struct{}

func newOwnGroup(string) *ownGroup { return nil }

func (*ownGroup) have(*exec.Cmd) {}

func (*ownGroup) kill() {}

func (*ownGroup) close() {}
