// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package driver

import "os/exec"

// Start starts a command. There are no cgroups on this system.
func (*Cgroup) Start(cmd *exec.Cmd) error { return cmd.Start() }
