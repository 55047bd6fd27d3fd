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
	uid, gid        int // of the owner
	folder, secrets fs.FileMode
}

// AccessOf lets in a user of the machine, whom the task runs as, and root. A task
// that is root may have children that are not, and are no other user's either: they
// reach its folder, not its secrets.
func AccessOf(uid, gid int) Access {
	out := Access{uid: uid, gid: gid, folder: closed, secrets: closed}
	if uid == 0 {
		out.folder = visible
	}
	return out
}

// AccessWithin is for tasks that do not reach their folders by their paths: it lets
// in nobody but root, beneath whose folder whoever is shown the secrets may enter
// them.
func AccessWithin() Access { return Access{folder: closed, secrets: open} }

// AccessOfAll lets in every user of the machine.
func AccessOfAll() Access { return Access{folder: open, secrets: open} }
