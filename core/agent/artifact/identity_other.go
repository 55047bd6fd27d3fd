// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !unix

package artifact

import (
	"os"
	"os/exec"
)

// identity is the user of a child: always the agent's own user on this platform.
type identity struct{}

func (f *Fetcher) childIdentity(alloc, binary string) identity { return identity{} }

func (identity) own(path string) error { return nil }

func (identity) disown(root *os.Root, name string) error { return nil }

func (identity) disownLink(root *os.Root, name string) error { return nil }

func (identity) apply(cmd *exec.Cmd) {}

// killGroup ends a process. What it has started ends with its input.
func killGroup(p *os.Process) error { return p.Kill() }

type inode struct{}

func inodeOf(info os.FileInfo) (inode, int) { return inode{}, 1 }

// acrossDevices returns true for every error: the copy then reports what is wrong.
func acrossDevices(err error) bool { return err != nil }
