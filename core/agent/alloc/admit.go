// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
)

// admit opens the task's folder and its secrets to the task's user right before the task
// starts. uid is the id that the node gave to the alloc, or 0.
func (p *preparation) admit(ctx context.Context, name string, uid int) error {
	return p.step(ctx, StepSecrets, p.cfg.Limits.Disk, func(context.Context) error {
		err := p.dir.Admit(p.name, accessOf(p.info.Capabilities, name, uid))
		if err == nil {
			err = p.writeTokens(p.name, p.task.ShownIdentities()) // again, for the new owner of the folder
		}
		if err != nil || uid == 0 || !p.haveOneUser() {
			return err
		}
		return p.dir.AdmitShared(allocdir.AccessOf(uid, uid))
	})
}

// haveOneUser reports whether all tasks of the alloc run as the id that the node gave to
// it: then no other user needs the shared folder.
func (p *preparation) haveOneUser() bool {
	for _, t := range p.group.Tasks {
		if !p.dynamic(t) {
			return false
		}
	}
	return true
}

// dynamic reports whether a task runs as the id of its alloc, if that has one.
func (p *preparation) dynamic(t *model.Task) bool {
	d, err := p.cfg.Drivers.Driver(t.Driver)
	return err == nil && t.User == "" && canBeDynamic(d.Info().Capabilities)
}

func canBeDynamic(c driver.Capabilities) bool { return c.DynamicUsers && !c.UnknownUser }

// accessOf returns who may enter the folders of a task. name is the task's user, or empty.
// The users of an image are not users of the machine: the driver mounts the folders into
// the container, where any user may need them.
func accessOf(c driver.Capabilities, name string, uid int) allocdir.Access {
	switch {
	case uid != 0:
		return allocdir.AccessOf(uid, uid)
	case c.UnknownUser:
		return allocdir.AccessOfAll()
	case c.FSIsolation == "image":
		return allocdir.AccessWithin()
	}
	return allocdir.AccessOf(idsOf(cmp.Or(name, c.DefaultUser)))
}

// assignUser returns the alloc's user id for a task that names no user; 0 if the alloc has
// none or the driver does not support it. The id is stored on disk before any file gets it
// as its owner.
func (p *preparation) assignUser(ctx context.Context, name string) (int, error) {
	if c := p.info.Capabilities; name != "" || !canBeDynamic(c) {
		if name == "" && c.DefaultUser != "" && !c.UnknownUser && p.cfg.Users.Enabled() {
			text := fmt.Sprintf("driver %q of this node has no user id for each alloc, though client.users is set: the task runs as %s, as tasks of other allocs do; upgrade the driver's plugin", p.task.Driver, c.DefaultUser)
			p.note(p.name, model.TaskEvent{Type: model.TaskHookMessage, Message: text, DisplayMessage: text})
		}
		return 0, nil
	}
	return p.takeID(ctx)
}

// takeID returns the id of the alloc, which gets one if it can have one.
func (p *preparation) takeID(ctx context.Context) (int, error) {
	p.building.Lock()
	defer p.building.Unlock()
	p.mu.Lock()
	uid := p.uid
	p.mu.Unlock()
	if uid != 0 || !p.cfg.Users.Enabled() || p.ranWithout() {
		return uid, nil
	}
	previous := p.predecessor()
	uid, err := p.cfg.Users.Assign(p.id, previous)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uid = uid
	if err := p.cfg.Store.PutAlloc(ctx, p.record()); err != nil {
		p.uid = 0 // asked for again, and found to be the alloc's
		return 0, err
	}
	return uid, nil
}

// predecessor returns the id of the alloc whose data this one takes over, or "".
func (p *preparation) predecessor() string {
	if disk := p.group.EphemeralDisk; disk == nil || !disk.Sticky {
		return ""
	}
	return p.alloc.PreviousAllocation
}

// ranWithout reports whether the alloc's data belongs to somebody else than an id of its
// own: its tasks ran before the node gave ids, or so did the tasks of the alloc whose data
// it has taken over.
func (p *preparation) ranWithout() bool {
	for _, t := range p.group.Tasks {
		p.mu.Lock()
		ran := p.tasks[t.Name].state.Starts > 0
		p.mu.Unlock()
		if ran && p.dynamic(t) {
			return true
		}
	}
	previous := p.predecessor()
	if previous == "" || p.cfg.Users.Has(previous) {
		return false
	}
	_, err := os.Stat(allocdir.New(p.cfg.Root, previous).Path)
	return err == nil
}

// idsOf returns the ids of a user of this machine, who may be named by id. It returns the
// agent's own ids for an empty name, and for an unknown user, whom the driver will reject.
func idsOf(name string) (uid, gid int) {
	uid, gid = os.Geteuid(), os.Getegid()
	u := lookUpUser(name)
	if u == nil {
		return uid, gid
	}
	id, uerr := strconv.Atoi(u.Uid)
	group, gerr := strconv.Atoi(u.Gid)
	if uerr != nil || gerr != nil {
		return uid, gid // users of Windows have no numeric ids
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
