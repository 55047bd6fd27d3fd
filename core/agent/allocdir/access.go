// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocdir

import "io/fs"

// Modes of a task's folder and of its secrets.
const (
	closed  fs.FileMode = 0o700
	visible fs.FileMode = 0o755
	open    fs.FileMode = 0o777
)

// Access says who of the machine's users may enter a task's folder, and its secrets.
type Access struct {
	uid, gid        int // ids of the owner
	folder, secrets fs.FileMode
}

// AccessOf returns the access of a task that runs as a user of the machine: that user and
// root may enter. A task of root may have child processes of other users: they may enter
// its folder, but not its secrets.
func AccessOf(uid, gid int) Access {
	out := Access{uid: uid, gid: gid, folder: closed, secrets: closed}
	if uid == 0 {
		out.folder = visible
	}
	return out
}

// AccessWithin returns the access of a task that sees its folders at other paths, such as
// in a container: only root may enter the task's folder, and every user to whom the secrets
// are mounted may enter them.
func AccessWithin() Access { return Access{folder: closed, secrets: open} }

// AccessOfAll lets in every user of the machine.
func AccessOfAll() Access { return Access{folder: open, secrets: open} }
