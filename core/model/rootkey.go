// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// States of a root key.
const (
	RootKeyActive       = "active"       // new data is sealed with it
	RootKeyInactive     = "inactive"     // old data is still opened with it
	RootKeyPrepublished = "prepublished" // verifiers see it; it becomes active at its PublishTime
)

// RootKeyAlgorithm is how variables are sealed.
const RootKeyAlgorithm = "aes256-gcm"

// RootKey is a key of the cluster's keyring. Its secrets are sealed with the key
// of the file that each server keeps beside its data (core/auth/keyring): state
// and snapshots hold nothing that opens anything.
type RootKey struct {
	KeyID       string
	State       string
	Algorithm   string
	Sealed      []byte // the AES-256 key
	SealedRSA   []byte // PKCS #8; nil until somebody asks for a signing key
	PublicRSA   []byte // PKIX, as it is: it is public
	CreateTime  int64  // unix nanoseconds
	PublishTime int64  // when it becomes, or became, active; 0: when it was made
	CreateIndex uint64
	ModifyIndex uint64
}
