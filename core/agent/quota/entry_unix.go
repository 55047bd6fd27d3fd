// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package quota

import (
	"io/fs"
	"syscall"
)

// openDirectory never waits, whatever a task has put into the place of the directory.
const openDirectory = syscall.O_RDONLY | syscall.O_DIRECTORY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// sector is the unit in which systems count what files take, whatever their disk has.
const sector = 512

func entryOf(info fs.FileInfo) entry {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return entry{bytes: info.Size()}
	}
	return entry{device: uint64(st.Dev), file: uint64(st.Ino), links: uint64(st.Nlink), bytes: int64(st.Blocks) * sector}
}
