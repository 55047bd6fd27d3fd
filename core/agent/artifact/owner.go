// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package artifact

import (
	"fmt"
	"os"
	"os/user"
	"path"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/agent/artifact/wire"
	"github.com/drover-project/drover/sdk/errdefs"
)

// owner is who files are given to; nobody where set is false.
type owner struct {
	set      bool
	uid, gid int
}

// own gives a file, folder or link to the owner.
func (o owner) own(root *os.Root, name string) error {
	if !o.set {
		return nil
	}
	return root.Lchown(name, o.uid, o.gid)
}

// ownerOf finds the user that an artifact with chown is given to.
func ownerOf(req Request) (owner, error) {
	if !req.Artifact.Chown || req.User == "" {
		return owner{}, nil
	}
	u, err := lookup(req.User)
	if err != nil {
		return owner{}, errdefs.InvalidArgumentf("chown: the task's user %q is not known on this node; create it, or name another: %w", req.User, err)
	}
	if os.Geteuid() == u.uid {
		return owner{}, nil
	}
	if os.Geteuid() != 0 {
		return owner{}, errdefs.InvalidArgumentf("chown: only an agent that runs as root can give files to user %q; run the agent as root or leave chown away", req.User)
	}
	return u, nil
}

// lookup finds a user by "NAME", "UID", "NAME:GROUP" or "UID:GID".
func lookup(text string) (owner, error) {
	name, group, hasGroup := strings.Cut(text, ":")
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return owner{}, fmt.Errorf("look up the user: %w", err)
		}
	}
	gid := u.Gid
	if hasGroup {
		if g, gerr := user.LookupGroup(group); gerr == nil {
			gid = g.Gid
		} else {
			gid = group
		}
	}
	out := owner{set: true}
	if out.uid, err = strconv.Atoi(u.Uid); err != nil {
		return owner{}, fmt.Errorf("uid of the user: %w", err)
	}
	if out.gid, err = strconv.Atoi(gid); err != nil {
		return owner{}, fmt.Errorf("group of the user: %w", err)
	}
	return out, nil
}

// give hands the fetched tree over to its owner.
func (st *stage) give(o owner) error {
	st.owner = o
	if !o.set {
		return nil
	}
	err := walk(st.alloc, path.Join(st.name, wire.OutName), func(name string, _ os.FileInfo) error { return o.own(st.alloc, name) })
	if err != nil {
		return fmt.Errorf("give the artifact to the task's user: %w", err)
	}
	return nil
}
