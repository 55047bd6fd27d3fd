// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package keyring owns the secrets of the cluster's root keys: it creates them, seals
// them with the key in a file that never leaves the server, and encrypts and decrypts
// variables with them. State, log and snapshots contain only sealed secrets. It stores
// only that file; the list of keys is in core/state. core/endpoint and core/server
// import it.
package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// FileName is the name of the file with the key that seals root keys, in the server's
// directory. Without it a copy of the state cannot be decrypted.
const FileName = "keyring.key"

const (
	keyBytes = 32
	rsaBits  = 2048
)

// Keyring encrypts and decrypts. It is safe for concurrent use.
type Keyring struct {
	file cipher.AEAD
	path string

	mu     sync.Mutex
	opened map[string]cipher.AEAD // by KeyID
	fresh  []byte                 // the secret, until it is written to the file
}

// Open reads the key file in a server's directory, or generates a key, which Check
// writes. If dir is empty, the key exists only in memory, like all data of such a
// server.
func Open(dir string) (*Keyring, error) {
	k := &Keyring{opened: map[string]cipher.AEAD{}, path: FileName}
	var secret []byte
	if dir != "" {
		k.path = filepath.Join(dir, FileName)
		var err error
		if secret, err = read(k.path); err != nil {
			return nil, err
		}
	}
	if secret == nil {
		secret = make([]byte, keyBytes)
		rand.Read(secret)
		if dir != "" {
			k.fresh = secret
		}
	}
	var err error
	k.file, err = newAEAD(secret)
	return k, err
}

// read returns the contents of the file, nil if it does not exist.
func read(path string) ([]byte, error) {
	have, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the key of the keyring: %w", err)
	case len(have) != keyBytes:
		return nil, errdefs.FailedPreconditionf("%s holds %d bytes, not a key of %d; restore it from a backup, without it no variable can be read", path, len(have), keyBytes)
	}
	return have, nil
}

// Check verifies that the file's key sealed the root keys in the state. It must be
// called before the first root key is created. It writes a missing file only if
// nothing could have been sealed with it: a newly generated key would hide the fact
// that all variables are lost without the right one.
func (k *Keyring) Check(roots iter.Seq[*model.RootKey]) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for root := range roots {
		if k.fresh != nil {
			return errdefs.FailedPreconditionf("%s is missing, and the variables of this cluster cannot be read without it: restore it from a backup of this server's data directory", k.path)
		}
		if _, err := k.unseal(root, root.Sealed, "aes "); err != nil {
			return err
		}
	}
	if k.fresh == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return fmt.Errorf("make the folder of the keyring: %w", err)
	}
	// The write must survive a power cut: without the key all variables are lost.
	if err := durable.WriteFile(k.path, k.fresh, 0o600); err != nil {
		return fmt.Errorf("write the key of the keyring: %w", err)
	}
	k.fresh = nil
	return nil
}

func newAEAD(secret []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, fmt.Errorf("use a key of the keyring: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// NewKey creates an active root key.
func (k *Keyring) NewKey(id string, now time.Time) *model.RootKey {
	secret := make([]byte, keyBytes)
	rand.Read(secret)
	return &model.RootKey{
		KeyID: id, State: model.RootKeyActive, Algorithm: model.RootKeyAlgorithm, CreateTime: now.UnixNano(),
		Sealed: k.file.Seal(nil, nil, secret, []byte("aes "+id)),
	}
}

// WithSigningKey returns the root key with an RSA key, which takes about 100 ms of
// processor time to generate.
func (k *Keyring) WithSigningKey(root *model.RootKey) (*model.RootKey, error) {
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
	out.SealedRSA, out.PublicRSA = k.file.Seal(nil, nil, private, []byte("rsa "+root.KeyID)), public
	return &out, nil
}

// SigningKey returns the RSA key of a root key that has one.
func (k *Keyring) SigningKey(root *model.RootKey) (*rsa.PrivateKey, error) {
	plain, err := k.unseal(root, root.SealedRSA, "rsa ")
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
	return pair, nil
}

func (k *Keyring) unseal(root *model.RootKey, sealed []byte, purpose string) ([]byte, error) {
	plain, err := k.file.Open(nil, nil, sealed, []byte(purpose+root.KeyID))
	if err != nil {
		return nil, errdefs.FailedPreconditionf("the root key %s was sealed with another key than that of %s; restore the file of the server that made it, without it no variable can be read", root.KeyID, k.path)
	}
	return plain, nil
}

func (k *Keyring) aead(root *model.RootKey) (cipher.AEAD, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a := k.opened[root.KeyID]; a != nil {
		return a, nil
	}
	secret, err := k.unseal(root, root.Sealed, "aes ")
	if err != nil {
		return nil, err
	}
	a, err := newAEAD(secret)
	if err == nil {
		k.opened[root.KeyID] = a
	}
	return a, err
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
