// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"cmp"
	"iter"
	"slices"

	"github.com/drover-project/drover/core/model"
)

// TableServerKeys is the name of the table of the servers' public keys.
const TableServerKeys = "server_keys"

var serverKeyTable = &kind[model.ServerKey]{
	heading: heading{name: TableServerKeys},
	schema:  schema[model.ServerKey]{id: func(k *model.ServerKey) string { return k.ServerID }},
	record:  42,
}

// ServerKeyByID returns the public key of a server, nil if it has not announced one.
func (v *View) ServerKeyByID(serverID string) *model.ServerKey {
	return serverKeyTable.in(v.t).get(serverID)
}

// ServerKeys yields the public keys of the servers, ordered by server.
func (v *View) ServerKeys() iter.Seq[*model.ServerKey] { return serverKeyTable.in(v.t).all("") }

// UpsertServerKey stores the public key of a server. The transaction takes ownership of k.
func (tx *Tx) UpsertServerKey(k *model.ServerKey) {
	k.CreateIndex, k.ModifyIndex = tx.index, tx.index
	if old := serverKeyTable.in(tx.t).get(k.ServerID); old != nil {
		k.CreateIndex = old.CreateIndex
	}
	record(tx, serverKeyTable, serverKeyTable.in(tx.t).put(k), k)
}

// DeleteServerKey removes the public key of a server, and everything that is encrypted for
// it.
func (tx *Tx) DeleteServerKey(serverID string) {
	if old := serverKeyTable.in(tx.t).delete(serverID); old != nil {
		record(tx, serverKeyTable, old, nil)
	}
	of := func(w model.RootKeyWrap) bool { return w.ServerID == serverID }
	var with []*model.RootKey
	for k := range tx.View().RootKeys() {
		if slices.ContainsFunc(k.Wraps, of) {
			with = append(with, k)
		}
	}
	for _, k := range with {
		c := *k
		c.Wraps = slices.DeleteFunc(slices.Clone(k.Wraps), of)
		tx.changeRootKey(&c)
	}
}

// WrapRootKey adds wraps to a root key, in place of the earlier wraps of the same servers.
// With unseal the key is no longer sealed with a file.
func (tx *Tx) WrapRootKey(k *model.RootKey, wraps []model.RootKeyWrap, unseal bool, secretRSA []byte) {
	c := *k
	c.Wraps = slices.DeleteFunc(slices.Clone(k.Wraps), func(w model.RootKeyWrap) bool {
		return slices.ContainsFunc(wraps, func(n model.RootKeyWrap) bool { return n.ServerID == w.ServerID })
	})
	c.Wraps = append(c.Wraps, wraps...)
	slices.SortFunc(c.Wraps, func(a, b model.RootKeyWrap) int { return cmp.Compare(a.ServerID, b.ServerID) })
	if unseal {
		c.Sealed, c.SealedRSA, c.SecretRSA = nil, nil, secretRSA
	}
	tx.changeRootKey(&c)
}

// changeRootKey stores a changed key of the keyring and leaves the other keys as they are.
func (tx *Tx) changeRootKey(k *model.RootKey) {
	k.ModifyIndex = tx.index
	record(tx, rootKeyTable, rootKeyTable.in(tx.t).put(k), k)
}
