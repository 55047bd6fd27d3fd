// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package keyring

import (
	"crypto/ecdh"
	"crypto/hpke"
	"fmt"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// The parts of HPKE (RFC 9180) with which secrets are encrypted for servers.
var (
	kdf  = hpke.HKDFSHA256()
	aead = hpke.AES256GCM()
)

// purpose binds an encrypted secret to its root key: it cannot be taken for another one.
func purpose(keyID string) []byte { return []byte("drover root key " + keyID) }

// wrap encrypts the secret of a root key for a server.
func wrap(keyID string, secret []byte, server *model.ServerKey) (model.RootKeyWrap, error) {
	public, err := ecdh.X25519().NewPublicKey(server.Public)
	if err != nil {
		return model.RootKeyWrap{}, errdefs.InvalidArgumentf("the public key of server %.80q: %w", server.ServerID, err)
	}
	to, err := hpke.NewDHKEMPublicKey(public)
	if err != nil {
		return model.RootKeyWrap{}, errdefs.InvalidArgumentf("the public key of server %.80q: %w", server.ServerID, err)
	}
	sealed, err := hpke.Seal(to, kdf, aead, purpose(keyID), secret)
	if err != nil {
		return model.RootKeyWrap{}, fmt.Errorf("encrypt a root key for server %s: %w", server.ServerID, err)
	}
	return model.RootKeyWrap{ServerID: server.ServerID, Public: server.Public, Secret: sealed}, nil
}

// CheckPublic returns an error of class InvalidArgument if the public key of a server is
// malformed.
func CheckPublic(server *model.ServerKey) error {
	_, err := wrap("", nil, server)
	return err
}

// secret returns the secret of a root key; see Opens for its errors. The caller holds mu.
func (k *Keyring) secret(root *model.RootKey) ([]byte, error) {
	for _, p := range append([]pair{k.pair}, k.former...) {
		w := root.WrapFor(p.public)
		if w == nil {
			continue
		}
		secret, err := hpke.Open(p.private, kdf, aead, purpose(root.KeyID), w.Secret)
		if err != nil {
			return nil, errdefs.FailedPreconditionf("the root key %s does not open with %s: the state is damaged; restore a snapshot", root.KeyID, k.file(FileName))
		}
		return secret, nil
	}
	switch {
	case len(root.Sealed) > 0:
		return k.unseal(root, root.Sealed, "aes ")
	case len(root.Wraps) == 0:
		return nil, errdefs.Internalf("the root key %s has no secret", root.KeyID)
	}
	return nil, errdefs.Unavailablef("this server has not received the root key %s yet; the leader gives it to every server that has joined, try again", root.KeyID)
}

// unseal decrypts a root key that is sealed with keyring.key. The caller holds mu.
func (k *Keyring) unseal(root *model.RootKey, sealed []byte, what string) ([]byte, error) {
	if k.sealer == nil {
		return nil, errdefs.FailedPreconditionf("the root key %s is sealed with a file that is not here: put the %s of the server that made it into the data directory, as %s; without it no variable can be read", root.KeyID, SealName, k.file(SealName))
	}
	plain, err := k.sealer.Open(nil, nil, sealed, []byte(what+root.KeyID))
	if err != nil {
		return nil, errdefs.FailedPreconditionf("the root key %s was sealed with another key than the one in %s; restore the file of the server that made it, without it no variable can be read", root.KeyID, k.file(SealName))
	}
	return plain, nil
}
