// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package keyring_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/auth/keyring"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func open(t *testing.T, dir string) *keyring.Keyring {
	t.Helper()
	k, err := keyring.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Check(slices.Values([]*model.RootKey(nil))); err != nil {
		t.Fatal(err)
	}
	return k
}

func sealed(t *testing.T, k *keyring.Keyring, root *model.RootKey, items map[string]string) *model.Variable {
	t.Helper()
	data, err := k.Seal(root, "default", "a/b", items)
	if err != nil {
		t.Fatal(err)
	}
	return &model.Variable{Namespace: "default", Path: "a/b", KeyID: root.KeyID, Data: data}
}

func TestItemsOpenAgainAfterARestartOfTheServer(t *testing.T) {
	dir := t.TempDir()
	k := open(t, dir)
	root := k.NewKey("k1", time.Now())
	items := map[string]string{"password": "hunter2"}
	v := sealed(t, k, root, items)
	got, err := open(t, dir).OpenItems(root, v)
	if err != nil || !maps.Equal(got, items) {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestNothingThatIsStoredHoldsTheSecret(t *testing.T) {
	k := open(t, t.TempDir())
	root := k.NewKey("k1", time.Now())
	v := sealed(t, k, root, map[string]string{"password": "hunter2hunter2"})
	if bytes.Contains(v.Data, []byte("hunter2")) || bytes.Contains(v.Data, []byte("password")) {
		t.Fatal("the stored bytes hold the item as it is")
	}
}

func TestWithoutTheFileOfTheServerNothingOpens(t *testing.T) {
	k := open(t, t.TempDir())
	root := k.NewKey("k1", time.Now())
	v := sealed(t, k, root, map[string]string{"a": "b"})
	if _, err := open(t, t.TempDir()).OpenItems(root, v); !errdefs.IsFailedPrecondition(err) {
		t.Fatalf("another server opened it: %v", err)
	}
}

func TestBytesOfAVariableOpenNowhereElse(t *testing.T) {
	k := open(t, "")
	root := k.NewKey("k1", time.Now())
	for _, move := range []func(*model.Variable){
		func(v *model.Variable) { v.Path = "a/c" },
		func(v *model.Variable) { v.Namespace = "dev" },
		func(v *model.Variable) { v.Data[len(v.Data)-1] ^= 1 },
	} {
		v := sealed(t, k, root, map[string]string{"a": "b"})
		move(v)
		if _, err := k.OpenItems(root, v); err == nil {
			t.Errorf("opened as %s %s", v.Namespace, v.Path)
		}
	}
}

func TestTheKeyFileIsForItsOwnerOnlyAndADamagedOneIsRefused(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	path := filepath.Join(dir, keyring.FileName)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keyring.Open(dir); !errdefs.IsFailedPrecondition(err) {
		t.Fatalf("a damaged file was taken: %v", err)
	}
}

func TestAMissingOrWrongKeyFileIsRefusedOnceItHasSealedSomething(t *testing.T) {
	dir := t.TempDir()
	roots := slices.Values([]*model.RootKey{open(t, dir).NewKey("k1", time.Now())})
	file := filepath.Join(dir, keyring.FileName)
	right, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	check := func() error {
		k, err := keyring.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return k.Check(roots)
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := check(); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), file+" is missing") {
			t.Errorf("without the file: %v", err)
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Fatal("another one was made in its place")
		}
	}
	if err := os.WriteFile(file, bytes.Repeat([]byte("x"), len(right)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check(); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "restore the file") {
		t.Errorf("with another file: %v", err)
	}
	if err := os.WriteFile(file, right, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check(); err != nil {
		t.Error(err)
	}
}

func TestThePublishedKeyVerifiesWhatTheSigningKeySigns(t *testing.T) {
	k := open(t, "")
	root, err := k.WithSigningKey(k.NewKey("k1", time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	private, err := k.SigningKey(root)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256([]byte("claims"))
	signature, err := rsa.SignPKCS1v15(rand.Reader, private, crypto.SHA256, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	jwk, err := keyring.PublicJWK(root)
	if err != nil {
		t.Fatal(err)
	}
	n, err := base64.RawURLEncoding.DecodeString(jwk.N)
	if err != nil {
		t.Fatal(err)
	}
	public := &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: 65537}
	if jwk.E != "AQAB" || jwk.Kid != "k1" || jwk.Alg != "RS256" {
		t.Errorf("%+v", jwk)
	}
	if err := rsa.VerifyPKCS1v15(public, crypto.SHA256, digest[:], signature); err != nil {
		t.Fatal(err)
	}
}
