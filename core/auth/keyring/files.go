// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package keyring

import (
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Files in the directory of a server.
const (
	// FileName is the server's key pair, a private X25519 key in PEM (PKCS #8). Without it
	// the server can open no root key.
	FileName = "keyring.pem"
	// FormerName is the keyring.pem of a server of another cluster. With it, a snapshot of
	// that cluster can be restored here. An operator puts it there.
	FormerName = "keyring.former.pem"
	// SealName is the key with which the only server of a cluster below level 2 sealed its
	// root keys. It is removed when all of them are encrypted for the key pair.
	SealName = "keyring.key"
)

// pair is a key pair. The zero value means no key pair.
type pair struct {
	key     *ecdh.PrivateKey
	private hpke.PrivateKey // the same
	public  []byte
}

func newPair(key *ecdh.PrivateKey) (pair, error) {
	private, err := hpke.NewDHKEMPrivateKey(key)
	if err != nil {
		return pair{}, fmt.Errorf("use a key of the keyring: %w", err)
	}
	return pair{key, private, key.PublicKey().Bytes()}, nil
}

// Open reads the key files in a server's directory. Without them it generates a key pair,
// which Check writes. If dir is empty, the pair exists only in memory, like all data of
// such a server.
func Open(dir, serverID string) (*Keyring, error) {
	k := &Keyring{dir: dir, server: serverID, opened: map[string]*opened{}}
	err := k.Reread()
	if err != nil || k.pair.key != nil {
		return k, err
	}
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key pair of this server: %w", err)
	}
	k.fresh = dir != ""
	k.pair, err = newPair(key)
	return k, err
}

// Reread reads the key files that an operator may have put there since. A key pair that was
// read or generated before stays.
func (k *Keyring) Reread() error {
	if k.dir == "" {
		return nil
	}
	own, err := readPair(k.file(FileName))
	if err != nil {
		return err
	}
	former, err := readPair(k.file(FormerName))
	if err != nil {
		return err
	}
	sealer, err := readSealer(k.file(SealName))
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pair.key == nil {
		k.pair = own
	}
	if former.key != nil {
		k.former = append(k.former, former)
	}
	if sealer != nil {
		k.sealer = sealer
	}
	return nil
}

func (k *Keyring) file(name string) string { return filepath.Join(k.dir, name) }

// read returns the contents of a file, nil if it does not exist.
func read(path string) ([]byte, error) {
	have, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a key of the keyring: %w", err)
	}
	return have, nil
}

// readPair reads a key pair; none if the file does not exist.
func readPair(path string) (pair, error) {
	text, err := read(path)
	if err != nil || text == nil {
		return pair{}, err
	}
	if block, _ := pem.Decode(text); block != nil {
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if private, ok := key.(*ecdh.PrivateKey); ok && private.Curve() == ecdh.X25519() {
				return newPair(private)
			}
		}
	}
	return pair{}, errdefs.FailedPreconditionf("%s holds no private X25519 key in PEM: restore it from a backup, without it this server can read no variable", path)
}

func readSealer(path string) (cipher.AEAD, error) {
	have, err := read(path)
	if err != nil || have == nil {
		return nil, err
	}
	if len(have) != keyBytes {
		return nil, errdefs.FailedPreconditionf("%s holds %d bytes, not a key of %d; restore it from a backup, without it no variable can be read", path, len(have), keyBytes)
	}
	return newAEAD(have)
}

// Public returns this server's public key.
func (k *Keyring) Public() []byte { return k.pair.public }

// Server returns this server's public key as it is in state.
func (k *Keyring) Server() *model.ServerKey {
	return &model.ServerKey{ServerID: k.server, Public: k.Public()}
}

// Check verifies that this server's key files belong to the state: known is this server's
// public key in it, nil if there is none. It must be called before the key pair is
// announced or encrypts anything. It writes a missing key pair only if the state knows none
// of this server: a new one would hide the fact that variables are lost without the right
// one. Its errors have class FailedPrecondition; a root key that other servers can open is
// no error.
func (k *Keyring) Check(roots iter.Seq[*model.RootKey], known *model.ServerKey) error {
	switch {
	case known == nil || string(known.Public) == string(k.Public()):
	case k.fresh:
		return errdefs.FailedPreconditionf("%s is missing, and this server cannot read the variables of this cluster without it: restore it from a backup of this server's data directory; "+
			"if other servers have theirs, remove this server with `drover operator raft remove-peer` and let it join anew with an empty data directory", k.file(FileName))
	default:
		return errdefs.FailedPreconditionf("%s is not the key pair that this cluster knows of this server: restore the right one from a backup; "+
			"if other servers have theirs, remove this server with `drover operator raft remove-peer` and let it join anew with an empty data directory", k.file(FileName))
	}
	for root := range roots {
		if err := k.Opens(root); err != nil && !errdefs.IsUnavailable(err) {
			return err
		}
	}
	return k.keep()
}

// keep writes a generated key pair to its file.
func (k *Keyring) keep() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.fresh {
		return nil
	}
	der, err := x509.MarshalPKCS8PrivateKey(k.pair.key)
	if err != nil {
		return fmt.Errorf("encode the key pair of this server: %w", err)
	}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the keyring: %w", err)
	}
	// The write must survive a power cut: without the key, variables may be lost.
	if err := durable.WriteFile(k.file(FileName), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("write the key pair of this server: %w", err)
	}
	k.fresh = false
	return nil
}

// Forget removes keyring.key if nothing needs it any more: no root key is sealed with it,
// and this server can open all of them with its key pair. Call it with the roots of a state
// that is durable. removed reports whether there was such a file.
func (k *Keyring) Forget(roots iter.Seq[*model.RootKey]) (removed bool, err error) {
	if k.dir == "" {
		return false, nil
	}
	some := false
	for root := range roots {
		if some = true; len(root.Sealed) > 0 || root.WrapFor(k.Public()) == nil {
			return false, nil
		}
	}
	if !some {
		return false, nil
	}
	err = os.Remove(k.file(SealName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("remove the key that is not needed any more: %w", err)
	}
	return true, nil
}
