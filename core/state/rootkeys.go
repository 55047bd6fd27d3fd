// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"iter"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// TableRootKeys is the name of the table of root keys.
const TableRootKeys = "root_keys"

var rootKeyTable = &kind[model.RootKey]{
	heading: heading{name: TableRootKeys},
	schema:  schema[model.RootKey]{id: func(k *model.RootKey) string { return k.KeyID }},
	record:  41,
}

// RootKeyByID returns a key of the keyring.
func (v *View) RootKeyByID(id string) *model.RootKey { return rootKeyTable.in(v.t).get(id) }

// RootKeys yields the keys of the keyring ordered by id.
func (v *View) RootKeys() iter.Seq[*model.RootKey] { return rootKeyTable.in(v.t).all("") }

// ActiveRootKey returns the key that encrypts new data, nil if there is none yet.
func (v *View) ActiveRootKey() *model.RootKey {
	for k := range v.RootKeys() {
		if k.State == model.RootKeyActive {
			return k
		}
	}
	return nil
}

// UpsertRootKey stores a key. If it is active, the other keys become inactive. The
// transaction takes ownership of k.
func (tx *Tx) UpsertRootKey(k *model.RootKey) {
	if k.State == model.RootKeyActive {
		tx.retireRootKeys(k.KeyID)
	}
	k.CreateIndex, k.ModifyIndex = tx.index, tx.index
	if old := rootKeyTable.in(tx.t).get(k.KeyID); old != nil {
		k.CreateIndex = old.CreateIndex
	}
	record(tx, rootKeyTable, rootKeyTable.in(tx.t).put(k), k)
}

// ActivateRootKey makes a key of the keyring the active one. Other active keys, and
// prepublished ones whose publish time is not later, become inactive.
func (tx *Tx) ActivateRootKey(k *model.RootKey) {
	var over []*model.RootKey
	for other := range tx.View().RootKeys() {
		if other.KeyID != k.KeyID && other.State == model.RootKeyPrepublished && other.PublishTime <= k.PublishTime {
			over = append(over, other)
		}
	}
	for _, other := range over {
		tx.retireRootKey(other)
	}
	c := *k
	c.State = model.RootKeyActive
	tx.UpsertRootKey(&c)
}

func (tx *Tx) retireRootKeys(but string) {
	var active []*model.RootKey
	for k := range tx.View().RootKeys() {
		if k.KeyID != but && k.State == model.RootKeyActive {
			active = append(active, k)
		}
	}
	for _, k := range active {
		tx.retireRootKey(k)
	}
}

func (tx *Tx) retireRootKey(k *model.RootKey) {
	c := *k
	c.State = model.RootKeyInactive
	tx.changeRootKey(&c)
}

// DeleteRootKey removes a key. It fails if the key is still in use.
func (tx *Tx) DeleteRootKey(id string) error {
	k := rootKeyTable.in(tx.t).get(id)
	switch {
	case k == nil:
		return errdefs.NotFoundf("root key %q not found", id)
	case k.State == model.RootKeyActive:
		return errdefs.FailedPreconditionf("active root key cannot be deleted - call rotate first")
	}
	for v := range tx.View().Variables("", "") {
		if v.KeyID == id {
			return errdefs.FailedPreconditionf("root key %s in use, cannot delete: the variable %q in namespace %q is sealed with it; rotate with -full first", id, v.Path, v.Namespace)
		}
	}
	for v := range tx.View().CSIVolumes() {
		if v.SecretsKeyID == id {
			return errdefs.FailedPreconditionf("root key %s in use, cannot delete: the secrets of volume %q in namespace %q are sealed with it; rotate with -full first", id, v.ID, v.Namespace)
		}
	}
	record(tx, rootKeyTable, rootKeyTable.in(tx.t).delete(id), nil)
	return nil
}
