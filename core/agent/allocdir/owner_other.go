// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !unix

package allocdir

import "io/fs"

// ownerAndNode returns nothing: this system has no ids of users.
func ownerAndNode(fs.FileInfo) (uid, gid int, id inode, links uint64) { return 0, 0, inode{}, 1 }

// withoutHoles returns the size of a file: this system does not say what of it is holes.
func withoutHoles(info fs.FileInfo) int64 { return info.Size() }
