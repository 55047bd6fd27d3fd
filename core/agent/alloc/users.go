// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"sync"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Users are the user ids that the node gives to allocs, so that tasks of one alloc cannot
// signal, trace or read the processes and files of another. An id is an alloc's until its
// directory is removed. Which alloc has which id is kept in the allocs' records.
type Users struct {
	min, max int
	exists   func(uid int) bool

	mu     sync.Mutex
	next   int
	byID   map[string]int          // by alloc
	owners map[int]map[string]bool // the allocs of an id
}

// NewUsers returns the ids from min to max. Ids of existing users of the machine are never
// given. A max of 0 means that allocs get no ids.
func NewUsers(min, max int, exists func(uid int) bool) *Users {
	return &Users{min: min, max: max, exists: exists, next: min, byID: map[string]int{}, owners: map[int]map[string]bool{}}
}

// Enabled reports whether allocs get ids.
func (u *Users) Enabled() bool { return u != nil && u.max > 0 }

// Hold records that an alloc has an id, which an earlier agent has stored.
func (u *Users) Hold(allocID string, uid int) {
	if u == nil || uid == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.hold(allocID, uid)
}

func (u *Users) hold(allocID string, uid int) {
	if u.owners[uid] == nil {
		u.owners[uid] = map[string]bool{}
	}
	u.byID[allocID], u.owners[uid][allocID] = uid, true
}

// Assign returns the id of an alloc: the one that it has, the id of the alloc whose data it
// takes over, or a free one. Ids are given in turn, so that one that was freed is not given
// again at once.
func (u *Users) Assign(allocID, previous string) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if uid := u.byID[allocID]; uid != 0 {
		return uid, nil
	}
	if uid := u.byID[previous]; uid != 0 {
		u.hold(allocID, uid)
		return uid, nil
	}
	for range u.max - u.min + 1 {
		uid := u.next
		if u.next++; u.next > u.max {
			u.next = u.min
		}
		if len(u.owners[uid]) == 0 && !u.exists(uid) {
			u.hold(allocID, uid)
			return uid, nil
		}
	}
	return 0, errdefs.ResourceExhaustedf("all user ids from %d to %d belong to allocs of this node, ended ones included, or to users of the machine; widen client.users in the agent's configuration, or have ended allocs removed (drover system gc)", u.min, u.max)
}

// Has reports whether an alloc has an id.
func (u *Users) Has(allocID string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.byID[allocID] != 0
}

// Release frees the id of an alloc whose directory is gone.
func (u *Users) Release(allocID string) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	uid := u.byID[allocID]
	delete(u.byID, allocID)
	if delete(u.owners[uid], allocID); len(u.owners[uid]) == 0 {
		delete(u.owners, uid)
	}
}
