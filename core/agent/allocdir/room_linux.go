// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocdir

import (
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/errdefs"
)

// leaves is how much of the disk received data leaves free: the agent needs some for its own
// state, and the tasks of other allocs for their work.
const leaves = 64 << 20

// Room returns an error of class ResourceExhausted if the disk of the alloc has no room for that
// many bytes. A file system that does not report its free space counts as having room.
func (d Dir) Room(bytes int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(d.Path, &st); err != nil {
		return nil //nolint:nilerr // see above
	}
	free := int64(st.Bavail) * st.Bsize
	if free-leaves >= bytes {
		return nil
	}
	return errdefs.ResourceExhaustedf("the disk of %s has %d MiB free, of which %d stay free, and the data of the previous alloc needs %d MiB: free some space",
		d.Path, free>>20, leaves>>20, (bytes+1<<20-1)>>20)
}
