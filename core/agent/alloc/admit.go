// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"cmp"
	"context"
	"os"
	"os/user"
	"strconv"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/pluginhost/driver"
)

// admit opens the task's folder and its secrets to whom the task runs as, right
// before it does.
func (p *preparation) admit(ctx context.Context, name string) error {
	return p.step(ctx, StepSecrets, p.cfg.Limits.Disk, func(context.Context) error {
		return p.dir.Admit(p.name, accessOf(p.info.Capabilities, name))
	})
}

// accessOf says who enters the folders of a task that names a user, or none. The users
// of an image are not the machine's: the driver shows the folders to the container,
// in which they may be anybody's.
func accessOf(c driver.Capabilities, name string) allocdir.Access {
	switch {
	case c.UnknownUser:
		return allocdir.AccessOfAll()
	case c.FSIsolation == "image":
		return allocdir.AccessWithin()
	}
	uid, gid := idsOf(cmp.Or(name, c.DefaultUser))
	return allocdir.AccessOf(uid, gid)
}

// idsOf are those of a user of this machine, who may be named by id. The agent's own
// stand for no user, and for one who does not exist: of that one the driver says so.
func idsOf(name string) (uid, gid int) {
	uid, gid = os.Geteuid(), os.Getegid()
	u := lookUpUser(name)
	if u == nil {
		return uid, gid
	}
	id, uerr := strconv.Atoi(u.Uid)
	group, gerr := strconv.Atoi(u.Gid)
	if uerr != nil || gerr != nil {
		return uid, gid // Windows has no numbers
	}
	return id, group
}

// lookUpUser finds a user of this machine by name or id; nil if there is none.
func lookUpUser(name string) *user.User {
	if name == "" {
		return nil
	}
	if u, err := user.Lookup(name); err == nil {
		return u
	}
	if u, err := user.LookupId(name); err == nil {
		return u
	}
	return nil
}
