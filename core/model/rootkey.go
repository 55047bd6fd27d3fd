// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// States of a root key.
const (
	RootKeyActive       = "active"       // new data is encrypted with it
	RootKeyInactive     = "inactive"     // used only to decrypt older data
	RootKeyPrepublished = "prepublished" // published for verifiers; becomes active at its PublishTime
)

// RootKeyAlgorithm is the algorithm that encrypts variables.
const RootKeyAlgorithm = "aes256-gcm"

// RootKey is a key of the cluster's keyring. Its secrets are sealed with the key file
// that each server keeps beside its data (core/auth/keyring), so state and snapshots
// contain nothing that can decrypt anything.
type RootKey struct {
	KeyID       string
	State       string
	Algorithm   string
	Sealed      []byte // the AES-256 key
	SealedRSA   []byte // PKCS #8; nil until a signing key is requested
	PublicRSA   []byte // PKIX, not sealed because it is public
	CreateTime  int64  // unix nanoseconds
	PublishTime int64  // when it becomes, or became, active; 0 means at creation
	CreateIndex uint64
	ModifyIndex uint64
}
