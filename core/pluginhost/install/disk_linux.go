// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package install

import "golang.org/x/sys/unix"

// isNoExec reports whether nothing in the directory can be executed.
func isNoExec(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Flags&unix.ST_NOEXEC != 0
}
