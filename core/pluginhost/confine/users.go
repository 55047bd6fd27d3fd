// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package confine

import (
	"hash/fnv"

	"github.com/drover-project/drover/sdk/errdefs"
)

// The range of the user ids of plugins, which no distribution and no tool hands out.
const (
	firstUser = 60578
	users     = 61184 - firstUser
)

// OwnUserID returns the id of a plugin: taken from its name, or the next one that is
// free. taken reports whether another plugin has an id. ResourceExhausted: all are
// taken.
func OwnUserID(plugin string, taken func(id int) bool) (int, error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(plugin)) // it returns no error
	for n := range users {
		if id := firstUser + (int(h.Sum32()%users)+n)%users; !taken(id) {
			return id, nil
		}
	}
	return 0, errdefs.ResourceExhaustedf("no user id from %d to %d is free for plugin %q; set user in its block", firstUser, firstUser+users-1, plugin)
}

// IsOwnUserID reports whether an id belongs to the range of plugins.
func IsOwnUserID(id int) bool { return id >= firstUser && id < firstUser+users }
