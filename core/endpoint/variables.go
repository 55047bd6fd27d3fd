// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/sdk/errdefs"
)

var lockOps = map[string]int{
	"": fsm.VariablePut, api.LockAcquire: fsm.VariableAcquire, api.LockRelease: fsm.VariableRelease, api.LockRenew: fsm.VariableRenew,
}

// PutVariable stores a variable, encrypted before it leaves this server's memory.
func (e *Endpoint) PutVariable(ctx context.Context, req *api.VariableRequest) (*api.Variable, uint64, error) {
	if err := validateVariable(req); err != nil {
		return nil, 0, err
	}
	if e.Store.View().NamespaceByName(req.Namespace) == nil {
		return nil, 0, errdefs.InvalidArgumentf("variable %q is in nonexistent namespace %q", req.Path, req.Namespace)
	}
	for {
		cmd, err := e.writeOf(ctx, req)
		if err != nil {
			return nil, 0, err
		}
		// The client learns what it has written, even if someone else has changed it since:
		// with the index or lock of another client it would mistake the other's write for its
		// own.
		stored, index, err := propose.Answered[*model.Variable](ctx, e.Raft, cmd)
		if errdefs.IsConflict(err) && cmd.CAS && req.CAS == nil && ctx.Err() == nil {
			continue // the variable was created meanwhile, so there are items to keep
		}
		if err != nil {
			return nil, index, err
		}
		out, err := e.OpenVariable(stored)
		return out, index, err
	}
}

// writeOf returns the log entry of a write.
func (e *Endpoint) writeOf(ctx context.Context, req *api.VariableRequest) (*fsm.PutVariable, error) {
	now := e.Now().UnixNano()
	row := &model.Variable{Namespace: req.Namespace, Path: req.Path, ModifyTime: now}
	cmd := &fsm.PutVariable{Variable: row, Op: lockOps[req.Operation], Now: now}
	if req.CAS != nil {
		cmd.CAS, cmd.Index = true, *req.CAS
	}
	if req.Lock != nil {
		cmd.LockID = req.Lock.ID
	}
	items, write := req.Items, len(req.Items) > 0 && req.Operation != api.LockRenew
	if req.Operation == api.LockAcquire {
		row.Lock = newLock(req.Lock, now)
		if !write && e.Store.View().VariableByPath(req.Namespace, req.Path) == nil {
			// Clients acquire locks of variables that need not exist, and name no items. The
			// new variable has none, and is written only if there is still no other.
			items, write, cmd.CAS = map[string]string{}, true, true
		}
	}
	if !write {
		return cmd, nil
	}
	key, err := e.activeKey(ctx)
	if err != nil {
		return nil, err
	}
	row.KeyID = key.KeyID
	row.Data, err = e.Keyring.Seal(key, req.Namespace, req.Path, items)
	return cmd, err
}

func validateVariable(req *api.VariableRequest) error {
	if err := model.ValidateVariablePath(req.Path); err != nil {
		return err
	}
	switch req.Operation {
	case "":
		if req.Lock != nil && (req.Lock.TTL != 0 || req.Lock.LockDelay != 0) {
			// Clients recognize this error by the RPC prefix in its text.
			return errdefs.InvalidArgumentf("RPC Error:: 400,variable should not contain lock definition")
		}
		return model.ValidateVariableItems(req.Items)
	case api.LockAcquire:
		if req.Lock == nil {
			req.Lock = &api.VariableLock{}
		}
		if len(req.Items) > 0 {
			if err := model.ValidateVariableItems(req.Items); err != nil {
				return err
			}
		}
		return model.ValidateVariableLock(newLock(req.Lock, 0))
	}
	if req.Lock == nil || req.Lock.ID == "" {
		return errdefs.InvalidArgumentf("the id of the lock is missing; give Lock.ID as acquiring it answered")
	}
	return nil
}

const defaultLockTime = 15 * time.Second

// newLock returns the lock that a request asks for; a holder that acquires it again
// keeps its id.
func newLock(asked *api.VariableLock, now int64) *model.VariableLock {
	l := &model.VariableLock{ID: asked.ID, TTL: time.Duration(asked.TTL), LockDelay: time.Duration(asked.LockDelay)}
	if l.ID == "" {
		l.ID = newID()
	}
	if l.TTL == 0 {
		l.TTL = defaultLockTime
	}
	if l.LockDelay == 0 {
		l.LockDelay = defaultLockTime
	}
	l.Deadline = now + int64(l.TTL)
	return l
}

// DeleteVariable removes a variable.
func (e *Endpoint) DeleteVariable(ctx context.Context, req *api.VariableRequest) (uint64, error) {
	cmd := &fsm.DeleteVariable{Namespace: req.Namespace, Path: req.Path, Now: e.Now().UnixNano()}
	if req.CAS != nil {
		cmd.CAS, cmd.Index = true, *req.CAS
	}
	if req.Lock != nil {
		cmd.LockID = req.Lock.ID
	}
	return e.propose(ctx, cmd)
}

// OpenVariable decrypts a stored variable.
func (e *Endpoint) OpenVariable(row *model.Variable) (*api.Variable, error) {
	items, err := e.Keyring.OpenRow(e.Store.View().RootKeyByID(row.KeyID), row)
	if err != nil {
		return nil, err
	}
	return &api.Variable{VariableMeta: api.MetaOfVariable(row, e.Now()), Items: items}, nil
}
