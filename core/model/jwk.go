// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// JWK is a public signing key in the format of RFC 7517.
type JWK struct {
	Use string `json:"use"`
	Kty string `json:"kty"`
	Kid string `json:"kid"`
	Alg string `json:"alg"`
	N   string `json:"n,omitempty"` // RSA
	E   string `json:"e,omitempty"`
	Crv string `json:"crv,omitempty"` // Ed25519
	X   string `json:"x,omitempty"`
}
