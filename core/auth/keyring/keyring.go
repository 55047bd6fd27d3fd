// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package keyring owns the secrets of the cluster's root keys: it creates them, encrypts
// them for each server (HPKE with X25519) and encrypts and decrypts variables with them.
// Each server has a key pair in a file of its own; state, log and snapshots contain only
// public keys and encrypted secrets. The package stores only that file; the lists of root
// keys and public keys are in core/state. core/endpoint, core/auth/keyshare and
// core/server import it.
package keyring

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	keyBytes = 32
	rsaBits  = 2048
)

// Keyring encrypts and decrypts. It is safe for concurrent use.
type Keyring struct {
	server string // the id of this server
	dir    string // "" if there is no data directory

	mu     sync.Mutex
	pair   pair
	fresh  bool               // pair is in no file yet
	former []pair             // key pairs of the server whose snapshot is restored
	sealer cipher.AEAD        // the key in keyring.key; nil without the file
	opened map[string]*opened // by KeyID
}

// opened is a root key that this server has opened.
type opened struct {
	secret []byte
	cipher.AEAD
	derived map[string]ed25519.PrivateKey // by use, when they were needed
	rsa     *rsa.PrivateKey               // nil until it is needed: see SigningKey
}

func newAEAD(secret []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, fmt.Errorf("use a key of the keyring: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// NewKey creates an active root key, which this server and those with a public key in
// the state can open.
func (k *Keyring) NewKey(id string, now time.Time, servers iter.Seq[*model.ServerKey]) (*model.RootKey, error) {
	secret := make([]byte, keyBytes)
	rand.Read(secret)
	root := &model.RootKey{KeyID: id, State: model.RootKeyActive, Algorithm: model.RootKeyAlgorithm, CreateTime: now.UnixNano()}
	for _, server := range k.with(servers) {
		w, err := wrap(id, secret, server)
		if err != nil {
			return nil, err
		}
		root.Wraps = append(root.Wraps, w)
	}
	return root, nil
}

// with returns the public keys of the servers, with this server's own, ordered by server.
func (k *Keyring) with(servers iter.Seq[*model.ServerKey]) []*model.ServerKey {
	out := []*model.ServerKey{{ServerID: k.server, Public: k.Public()}}
	for s := range servers {
		if s.ServerID != k.server {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *model.ServerKey) int { return cmp.Compare(a.ServerID, b.ServerID) })
	return out
}

// Wrap returns the secret of a root key, encrypted for servers. It fails as Opens does.
func (k *Keyring) Wrap(root *model.RootKey, servers []*model.ServerKey) ([]model.RootKeyWrap, error) {
	k.mu.Lock()
	o, err := k.open(root)
	k.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var out []model.RootKeyWrap
	for _, s := range servers {
		w, err := wrap(root.KeyID, o.secret, s)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

// Unseal returns the signing key of a root key that is sealed with keyring.key, encrypted
// with the root key's secret; nil if it has none.
func (k *Keyring) Unseal(root *model.RootKey) (secretRSA []byte, err error) {
	if len(root.SealedRSA) == 0 {
		return root.SecretRSA, nil
	}
	private, err := k.signing(root)
	if err != nil {
		return nil, err
	}
	a, err := k.aead(root)
	if err != nil {
		return nil, err
	}
	return a.Seal(nil, nil, private, []byte("rsa "+root.KeyID)), nil
}

// WithSigningKey returns the root key with an RSA key, which takes about 100 ms of
// processor time to generate.
func (k *Keyring) WithSigningKey(root *model.RootKey) (*model.RootKey, error) {
	a, err := k.aead(root)
	if err != nil {
		return nil, err
	}
	pair, err := rsa.GenerateKey(rand.Reader, rsaBits)
	if err != nil {
		return nil, fmt.Errorf("make a signing key: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(pair)
	if err != nil {
		return nil, fmt.Errorf("encode a signing key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(pair.Public())
	if err != nil {
		return nil, fmt.Errorf("encode a signing key: %w", err)
	}
	out := *root
	out.SecretRSA, out.PublicRSA = a.Seal(nil, nil, private, []byte("rsa "+root.KeyID)), public
	return &out, nil
}

// SigningKey returns the RSA key of a root key that has one.
func (k *Keyring) SigningKey(root *model.RootKey) (*rsa.PrivateKey, error) {
	k.mu.Lock()
	o, err := k.open(root)
	if err != nil {
		k.mu.Unlock()
		return nil, err
	}
	known := o.rsa
	k.mu.Unlock()
	if known != nil {
		return known, nil
	}
	plain, err := k.signing(root)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(plain)
	if err != nil {
		return nil, fmt.Errorf("read the signing key %s: %w", root.KeyID, err)
	}
	pair, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, errdefs.Internalf("the signing key %s is a %T, not an RSA key", root.KeyID, key)
	}
	k.mu.Lock()
	o.rsa = pair
	k.mu.Unlock()
	return pair, nil
}

func (k *Keyring) signing(root *model.RootKey) ([]byte, error) {
	if len(root.SealedRSA) > 0 {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.unseal(root, root.SealedRSA, "rsa ")
	}
	a, err := k.aead(root)
	if err != nil {
		return nil, err
	}
	plain, err := a.Open(nil, nil, root.SecretRSA, []byte("rsa "+root.KeyID))
	if err != nil {
		return nil, errdefs.Internalf("the signing key of %s does not open with it: it is damaged", root.KeyID)
	}
	return plain, nil
}

// Uses of derived keys, which separate them from other uses of a root key.
const (
	useNodes = "drover tokens of nodes"
	useTasks = "drover tokens of tasks"
)

// NodeKey returns the key that signs tokens of nodes. It fails as Opens does.
func (k *Keyring) NodeKey(root *model.RootKey) (ed25519.PrivateKey, error) {
	return k.derive(root, useNodes)
}

// TaskKey returns the key that signs tokens of tasks. It fails as Opens does.
func (k *Keyring) TaskKey(root *model.RootKey) (ed25519.PrivateKey, error) {
	return k.derive(root, useTasks)
}

// derive derives a key from the secret of the root key, so that it need not be generated or
// stored.
func (k *Keyring) derive(root *model.RootKey, use string) (ed25519.PrivateKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o, err := k.open(root)
	if err != nil {
		return nil, err
	}
	if key := o.derived[use]; key != nil {
		return key, nil
	}
	seed, err := hkdf.Key(sha256.New, o.secret, nil, use, ed25519.SeedSize)
	if err != nil {
		return nil, errdefs.Internalf("derive a key from the root key %s: %w", root.KeyID, err)
	}
	o.derived[use] = ed25519.NewKeyFromSeed(seed)
	return o.derived[use], nil
}

// Opens returns nil if this server can open the root key. Unavailable: other servers can,
// and the leader has not given it to this one yet. FailedPrecondition: the key file with
// which it opens is not here.
func (k *Keyring) Opens(root *model.RootKey) error {
	_, err := k.aead(root)
	return err
}

// open opens a root key. The caller holds mu.
func (k *Keyring) open(root *model.RootKey) (*opened, error) {
	if o, ok := k.opened[root.KeyID]; ok {
		return o, nil
	}
	secret, err := k.secret(root)
	if err != nil {
		return nil, err
	}
	o := &opened{secret: secret, derived: map[string]ed25519.PrivateKey{}}
	if o.AEAD, err = newAEAD(secret); err != nil {
		return nil, err
	}
	k.opened[root.KeyID] = o
	return o, nil
}

func (k *Keyring) aead(root *model.RootKey) (cipher.AEAD, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o, err := k.open(root)
	if err != nil {
		return nil, err
	}
	return o.AEAD, nil
}

// bound returns the data that binds a ciphertext to its variable: it cannot be
// decrypted as another one.
func bound(namespace, path string) []byte { return []byte(namespace + "\x00" + path) }

// Seal encrypts the items of a variable.
func (k *Keyring) Seal(root *model.RootKey, namespace, path string, items map[string]string) ([]byte, error) {
	a, err := k.aead(root)
	if err != nil {
		return nil, err
	}
	plain, err := json.Marshal(items)
	if err != nil {
		return nil, fmt.Errorf("encode the items of a variable: %w", err)
	}
	return a.Seal(nil, nil, plain, bound(namespace, path)), nil
}

// OpenRow is OpenItems for a root key that may be nil.
func (k *Keyring) OpenRow(root *model.RootKey, v *model.Variable) (map[string]string, error) {
	if root == nil {
		return nil, errdefs.FailedPreconditionf("the root key %s of the variable %q is not in the keyring", v.KeyID, v.Path)
	}
	return k.OpenItems(root, v)
}

// OpenItems decrypts the items of a variable with the root key that encrypted them.
func (k *Keyring) OpenItems(root *model.RootKey, v *model.Variable) (map[string]string, error) {
	a, err := k.aead(root)
	if err != nil {
		return nil, err
	}
	plain, err := a.Open(nil, nil, v.Data, bound(v.Namespace, v.Path))
	if err != nil {
		return nil, errdefs.Internalf("the variable %q in namespace %q does not open with the root key %s: it is damaged", v.Path, v.Namespace, root.KeyID)
	}
	var items map[string]string
	if err := json.Unmarshal(plain, &items); err != nil {
		return nil, fmt.Errorf("read the items of a variable: %w", err)
	}
	return items, nil
}
