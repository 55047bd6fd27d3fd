// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package process

import "os/exec"

// startTied only starts the command: a process that is killed leaves it.
func startTied(cmd *exec.Cmd) error { return cmd.Start() }
