// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Operations of PutVariable, besides storing the items.
const (
	VariablePut     = 0
	VariableAcquire = 1 // acquire the lock
	VariableRelease = 2 // release the lock
	VariableRenew   = 3 // only extend the deadline of the lock
	VariableReseal  = 4 // only re-encrypt with another key; requires CAS
)

// PutVariable stores a variable. While its lock is held at Now, only writes with the
// lock's id are accepted. With CAS the stored modify index must be Index (0: it must
// not exist). Its answer is the stored *model.Variable.
type PutVariable struct {
	Variable *model.Variable // empty Data keeps the items; ModifyTime is Now
	Op       int
	LockID   string
	CAS      bool
	Index    uint64
	Now      int64

	stored *model.Variable
}

// answer returns the variable as this command has stored it. The state may already have a
// later one when the proposer looks.
func (c *PutVariable) answer() any { return c.stored }

func (*PutVariable) kind() byte { return kindPutVariable }

func (c *PutVariable) apply(tx *state.Tx) error {
	v := c.Variable
	if v == nil {
		return errdefs.InvalidArgumentf("a variable is missing")
	}
	view := tx.View()
	if view.NamespaceByName(v.Namespace) == nil {
		return errdefs.NotFoundf("variable %q is in nonexistent namespace %q", v.Path, v.Namespace)
	}
	cur := view.VariableByPath(v.Namespace, v.Path)
	if c.Op != VariableReseal {
		if err := mayWrite(cur, c.LockID, c.Now); err != nil {
			return err
		}
	}
	if err := sameIndex(cur, c.CAS, c.Index); err != nil {
		return err
	}
	return c.store(tx, cur)
}

// mayWrite rejects writers that do not hold the variable's lock.
func mayWrite(cur *model.Variable, lockID string, now int64) error {
	if cur == nil || !cur.Lock.HeldAt(now) || cur.Lock.ID == lockID {
		return nil
	}
	if lockID == "" {
		return errdefs.Conflictf("variable %q is locked", cur.Path)
	}
	return errdefs.Conflictf("variable %q is locked by another lock than %q", cur.Path, lockID)
}

func sameIndex(cur *model.Variable, cas bool, index uint64) error {
	have := uint64(0)
	if cur != nil {
		have = cur.ModifyIndex
	}
	if cas && have != index {
		return errdefs.Conflictf("the variable has modify index %d, not %d; read it again", have, index)
	}
	return nil
}

func (c *PutVariable) store(tx *state.Tx, cur *model.Variable) error {
	row := *c.Variable
	c.stored = &row
	if len(row.Data) > 0 && row.KeyID != "" && tx.View().RootKeyByID(row.KeyID) == nil {
		return errdefs.Abortedf("the root key that variable %q was sealed with was removed meanwhile; write it again", row.Path)
	}
	if cur != nil {
		if len(row.Data) == 0 {
			row.Data, row.KeyID = cur.Data, cur.KeyID
		}
		row.CreateIndex, row.CreateTime, row.ModifyIndex = cur.CreateIndex, cur.CreateTime, cur.ModifyIndex
	}
	var held *model.VariableLock
	if cur != nil && cur.Lock.HeldAt(c.Now) {
		held = cur.Lock
	}
	switch c.Op {
	case VariableAcquire:
		if held == nil && cur != nil && cur.Lock.DelayedAt(c.Now) {
			return errdefs.Conflictf("the lock of variable %q ended without a release; it is kept free for its lock delay, try again later", row.Path)
		}
		row.Lock = c.Variable.Lock
	case VariableRelease, VariableRenew:
		if held == nil {
			return errdefs.Conflictf("variable %q is not locked", row.Path)
		}
		if row.Lock = nil; c.Op == VariableRenew {
			lock := *held
			lock.Deadline = c.Now + int64(lock.TTL)
			row.Lock, row.ModifyTime = &lock, cur.ModifyTime
			tx.ReplaceVariable(&row)
			return nil
		}
	case VariableReseal:
		if cur == nil {
			return errdefs.NotFoundf("variable not found")
		}
		row.Lock, row.ModifyTime = cur.Lock, cur.ModifyTime
		tx.ReplaceVariable(&row)
		return nil
	default:
		row.Lock = held
		if cur != nil && cur.Lock.DelayedAt(c.Now) {
			row.Lock = cur.Lock // the lock delay continues
		}
	}
	tx.UpsertVariable(&row)
	return nil
}

// DeleteVariable removes a variable, under the same conditions as PutVariable.
type DeleteVariable struct {
	Namespace string
	Path      string
	LockID    string
	CAS       bool
	Index     uint64
	Now       int64
}

func (*DeleteVariable) kind() byte { return kindDeleteVariable }

func (c *DeleteVariable) apply(tx *state.Tx) error {
	cur := tx.View().VariableByPath(c.Namespace, c.Path)
	if err := mayWrite(cur, c.LockID, c.Now); err != nil {
		return err
	}
	if err := sameIndex(cur, c.CAS, c.Index); err != nil {
		return err
	}
	tx.DeleteVariable(c.Namespace, c.Path)
	return nil
}
