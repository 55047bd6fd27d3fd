// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "bytes"

// States of a root key.
const (
	RootKeyActive       = "active"       // new data is encrypted with it
	RootKeyInactive     = "inactive"     // used only to decrypt older data
	RootKeyPrepublished = "prepublished" // published for verifiers; becomes active at its PublishTime
)

// RootKeyAlgorithm is the algorithm that encrypts variables.
const RootKeyAlgorithm = "aes256-gcm"

// RootKey is a key of the cluster's keyring. Its secret is stored once for each server,
// encrypted for that server's key pair (core/auth/keyring), so state and snapshots contain
// nothing that can decrypt anything.
type RootKey struct {
	KeyID     string
	State     string
	Algorithm string
	// Sealed and SealedRSA are the secret and the signing key (PKCS #8), sealed with
	// keyring.key, the file of the only server of a cluster below level 2. They are empty
	// once the key has Wraps.
	Sealed      []byte
	SealedRSA   []byte
	PublicRSA   []byte // PKIX; nil until a signing key is requested
	CreateTime  int64  // unix nanoseconds
	PublishTime int64  // when it becomes, or became, active; 0 means at creation
	CreateIndex uint64
	ModifyIndex uint64
	// Wraps are the secret, an AES-256 key, encrypted for each server, ordered by server.
	Wraps []RootKeyWrap
	// SecretRSA is the signing key (PKCS #8), encrypted with the secret.
	SecretRSA []byte
}

// RootKeyWrap is the secret of a root key, encrypted for one server.
type RootKeyWrap struct {
	ServerID string
	Public   []byte // the server's public key for which it is encrypted
	Secret   []byte
}

// WrapFor returns the wrap for a server's public key, nil if there is none.
func (k *RootKey) WrapFor(public []byte) *RootKeyWrap {
	for i := range k.Wraps {
		if bytes.Equal(k.Wraps[i].Public, public) {
			return &k.Wraps[i]
		}
	}
	return nil
}

// ServerKey is the public key of a server, for which root keys are encrypted. It is added
// when the server announces it, and removed when the server is no longer a member.
type ServerKey struct {
	ServerID    string
	Public      []byte // X25519
	CreateIndex uint64
	ModifyIndex uint64
}
