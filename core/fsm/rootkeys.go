// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"bytes"
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// UpsertRootKey stores a key of the keyring. OnlyFirst does nothing if there already
// is an active key, because two successive leaders may both create the first one.
// OnlyKnown does nothing if the key no longer exists. An existing key keeps its state,
// because another key may have become active since Key was read, and its wraps, because
// servers may have been added or removed.
type UpsertRootKey struct {
	Key       *model.RootKey
	OnlyFirst bool
	OnlyKnown bool
}

func (*UpsertRootKey) kind() byte { return kindUpsertRootKey }

// needs returns 2 for a key that is encrypted for servers and not with a file.
func (c *UpsertRootKey) needs() int {
	if c.Key != nil && (len(c.Key.Wraps) > 0 || len(c.Key.SecretRSA) > 0) {
		return 2
	}
	return 1
}

func (c *UpsertRootKey) apply(tx *state.Tx) error {
	if c.Key == nil || c.Key.KeyID == "" {
		return errdefs.InvalidArgumentf("a root key is missing")
	}
	if c.OnlyFirst && tx.View().ActiveRootKey() != nil {
		return nil
	}
	key := *c.Key
	old := tx.View().RootKeyByID(key.KeyID)
	if old == nil && c.OnlyKnown {
		return errdefs.NotFoundf("root key %q was removed meanwhile", key.KeyID)
	}
	if old != nil {
		key.State, key.PublishTime = old.State, old.PublishTime
		if len(old.Wraps) > 0 {
			key.Wraps, key.Sealed, key.SealedRSA = old.Wraps, old.Sealed, old.SealedRSA
		}
	}
	tx.UpsertRootKey(&key)
	return nil
}

// ActivateRootKey makes a prepublished key the active one. Prepublished keys with an
// earlier publish time become inactive. It does nothing if the key no longer exists or
// is not prepublished, because two successive leaders may both activate it.
type ActivateRootKey struct{ KeyID string }

func (*ActivateRootKey) kind() byte { return kindActivateRootKey }

func (c *ActivateRootKey) apply(tx *state.Tx) error {
	if key := tx.View().RootKeyByID(c.KeyID); key != nil && key.State == model.RootKeyPrepublished {
		tx.ActivateRootKey(key)
	}
	return nil
}

// DeleteRootKey removes a key that is no longer in use.
type DeleteRootKey struct{ KeyID string }

func (*DeleteRootKey) kind() byte { return kindDeleteRootKey }

func (c *DeleteRootKey) apply(tx *state.Tx) error { return tx.DeleteRootKey(c.KeyID) }

// UpsertServerKey stores the public key of a server. A server's key never changes: another
// one is a Conflict, unless Replace is set, with which a leader replaces its own after it
// has restored a snapshot.
type UpsertServerKey struct {
	Key     *model.ServerKey
	Replace bool
}

func (*UpsertServerKey) kind() byte { return kindUpsertServerKey }

func (c *UpsertServerKey) apply(tx *state.Tx) error {
	if c.Key == nil || c.Key.ServerID == "" || len(c.Key.Public) == 0 {
		return errdefs.InvalidArgumentf("the public key of a server is missing")
	}
	if old := tx.View().ServerKeyByID(c.Key.ServerID); old != nil {
		if bytes.Equal(old.Public, c.Key.Public) {
			return nil
		}
		if !c.Replace {
			return errdefs.Conflictf("the cluster knows another public key of server %s", c.Key.ServerID)
		}
	}
	key := *c.Key
	tx.UpsertServerKey(&key)
	return nil
}

// DeleteServerKey removes the public key of a server that is no longer a member, and its
// wraps of all root keys. It is refused if nobody else could open one of them.
type DeleteServerKey struct{ ServerID string }

func (*DeleteServerKey) kind() byte { return kindDeleteServerKey }

func (c *DeleteServerKey) apply(tx *state.Tx) error {
	for k := range tx.View().RootKeys() {
		if len(k.Sealed) == 0 && len(k.Wraps) == 1 && k.Wraps[0].ServerID == c.ServerID {
			return errdefs.FailedPreconditionf("only server %s can open the root key %s", c.ServerID, k.KeyID)
		}
	}
	tx.DeleteServerKey(c.ServerID)
	return nil
}

// WrapRootKey adds the secret of a root key, encrypted for servers. Wraps of servers whose
// public key has changed meanwhile are left out. With Unseal the key is no longer sealed
// with a file, and SecretRSA is its signing key; the key must not have changed since Index,
// or the command is Aborted.
type WrapRootKey struct {
	KeyID     string
	Wraps     []model.RootKeyWrap
	Unseal    bool
	SecretRSA []byte
	Index     uint64
}

func (*WrapRootKey) kind() byte { return kindWrapRootKey }

func (c *WrapRootKey) apply(tx *state.Tx) error {
	view := tx.View()
	key := view.RootKeyByID(c.KeyID)
	if key == nil {
		return errdefs.NotFoundf("root key %q was removed meanwhile", c.KeyID)
	}
	if c.Unseal && key.ModifyIndex != c.Index {
		return errdefs.Abortedf("root key %q has changed meanwhile", c.KeyID)
	}
	wraps := slices.DeleteFunc(slices.Clone(c.Wraps), func(w model.RootKeyWrap) bool {
		server := view.ServerKeyByID(w.ServerID)
		return server == nil || !bytes.Equal(server.Public, w.Public)
	})
	if len(wraps) == 0 {
		return errdefs.Abortedf("the servers for which root key %q was encrypted are gone", c.KeyID)
	}
	tx.WrapRootKey(key, wraps, c.Unseal, c.SecretRSA)
	return nil
}
