// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package keyring

import (
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"math/big"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// TaskJWK returns the public key that verifies tokens of tasks. It fails as Opens does.
func (k *Keyring) TaskJWK(root *model.RootKey, kid string) (*model.JWK, error) {
	key, err := k.TaskKey(root)
	if err != nil {
		return nil, err
	}
	public, _ := key.Public().(ed25519.PublicKey)
	return &model.JWK{Use: "sig", Kty: "OKP", Kid: kid, Alg: "EdDSA", Crv: "Ed25519", X: base64.RawURLEncoding.EncodeToString(public)}, nil
}

// PublicJWK returns the public signing key of a root key, nil if it has none.
func PublicJWK(root *model.RootKey) (*model.JWK, error) {
	if root.PublicRSA == nil {
		return nil, nil
	}
	key, err := x509.ParsePKIXPublicKey(root.PublicRSA)
	if err != nil {
		return nil, fmt.Errorf("read the public key of %s: %w", root.KeyID, err)
	}
	public, ok := key.(*rsa.PublicKey)
	if !ok {
		return nil, errdefs.Internalf("the public key of %s is a %T, not an RSA key", root.KeyID, key)
	}
	text := base64.RawURLEncoding.EncodeToString
	return &model.JWK{
		Use: "sig", Kty: "RSA", Kid: root.KeyID, Alg: "RS256",
		N: text(public.N.Bytes()), E: text(big.NewInt(int64(public.E)).Bytes()),
	}, nil
}
