// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package allocdir

import (
	"io/fs"
	"syscall"
)

// ownerAndNode returns who owns a file, which file it is, and how many names it has.
func ownerAndNode(info fs.FileInfo) (uid, gid int, id inode, links uint64) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, inode{}, 1
	}
	return int(st.Uid), int(st.Gid), inode{uint64(st.Dev), st.Ino}, uint64(st.Nlink)
}

// withoutHoles returns how many bytes of a regular file are on the disk.
func withoutHoles(info fs.FileInfo) int64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Size()
	}
	const block = 512 // whatever the file system uses
	return min(info.Size(), int64(st.Blocks)*block)
}
