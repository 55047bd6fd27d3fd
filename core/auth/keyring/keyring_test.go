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
	k, err := keyring.Open(dir, "s1")
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Check(slices.Values([]*model.RootKey(nil)), nil); err != nil {
		t.Fatal(err)
	}
	return k
}

func newKey(t *testing.T, k *keyring.Keyring, servers ...*model.ServerKey) *model.RootKey {
	t.Helper()
	root, err := k.NewKey("k1", time.Now(), slices.Values(servers))
	if err != nil {
		t.Fatal(err)
	}
	return root
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
	root := newKey(t, k)
	items := map[string]string{"password": "hunter2"}
	v := sealed(t, k, root, items)
	got, err := open(t, dir).OpenItems(root, v)
	if err != nil || !maps.Equal(got, items) {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestNothingThatIsStoredHoldsTheSecret(t *testing.T) {
	k := open(t, t.TempDir())
	root := newKey(t, k)
	v := sealed(t, k, root, map[string]string{"password": "hunter2hunter2"})
	if bytes.Contains(v.Data, []byte("hunter2")) || bytes.Contains(v.Data, []byte("password")) {
		t.Fatal("the stored bytes hold the item as it is")
	}
}

func TestWithoutTheFileOfTheServerNothingOpens(t *testing.T) {
	k := open(t, t.TempDir())
	root := newKey(t, k)
	v := sealed(t, k, root, map[string]string{"a": "b"})
	if _, err := open(t, t.TempDir()).OpenItems(root, v); !errdefs.IsUnavailable(err) {
		t.Fatalf("another server opened it: %v", err)
	}
}

func TestBytesOfAVariableOpenNowhereElse(t *testing.T) {
	k := open(t, "")
	root := newKey(t, k)
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
	if _, err := keyring.Open(dir, "s1"); !errdefs.IsFailedPrecondition(err) {
		t.Fatalf("a damaged file was taken: %v", err)
	}
}

func TestAMissingOrWrongKeyFileIsRefusedOnceTheClusterKnowsItsKey(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	roots, known := slices.Values([]*model.RootKey{newKey(t, first)}), first.Server()
	file := filepath.Join(dir, keyring.FileName)
	right, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	check := func() error {
		k, err := keyring.Open(dir, "s1")
		if err != nil {
			t.Fatal(err)
		}
		return k.Check(roots, known)
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
	other := t.TempDir()
	open(t, other)
	wrong, err := os.ReadFile(filepath.Join(other, keyring.FileName))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{string(wrong): "is not the key pair that this cluster knows", string(right): ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := check(); want == "" && err != nil || want != "" && (!errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), want)) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func TestEveryServerOpensTheRootKeyThatIsEncryptedForItAndNoOther(t *testing.T) {
	one, two, three := open(t, t.TempDir()), open(t, t.TempDir()), open(t, t.TempDir())
	second, third := two.Server(), three.Server()
	second.ServerID, third.ServerID = "s2", "s3"
	root := newKey(t, one, second)
	v := sealed(t, one, root, map[string]string{"a": "b"})
	if items, err := two.OpenItems(root, v); err != nil || items["a"] != "b" {
		t.Errorf("the second server: %v, %v", items, err)
	}
	if _, err := three.OpenItems(root, v); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "has not received") {
		t.Errorf("the third server: %v", err)
	}
	more, err := two.Wrap(root, []*model.ServerKey{third})
	if err != nil {
		t.Fatal(err)
	}
	moved := *root
	moved.KeyID, moved.Wraps = "k2", more
	if err := three.Opens(&moved); err == nil {
		t.Error("a secret opens as that of another root key")
	}
	root.Wraps = append(root.Wraps, more...)
	if items, err := three.OpenItems(root, v); err != nil || items["a"] != "b" {
		t.Errorf("the third server, when it has received it: %v, %v", items, err)
	}
	for _, w := range root.Wraps {
		if bytes.Contains(w.Secret, v.Data[:8]) || len(w.Secret) < 64 {
			t.Errorf("%+v", w)
		}
	}
}

func TestThePublishedKeyVerifiesWhatTheSigningKeySigns(t *testing.T) {
	k := open(t, "")
	root, err := k.WithSigningKey(newKey(t, k))
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

func TestAllServersDeriveOneKeyForTokensOfNodesFromARootKeyAndNoOtherServerDoes(t *testing.T) {
	dir := t.TempDir()
	k := open(t, dir)
	other, err := keyring.Open(t.TempDir(), "s2")
	if err != nil {
		t.Fatal(err)
	}
	root := newKey(t, k, &model.ServerKey{ServerID: "s2", Public: other.Public()})
	want, err := k.NodeKey(root)
	if err != nil {
		t.Fatal(err)
	}
	for what, ring := range map[string]*keyring.Keyring{"the server again": k, "after a restart": open(t, dir), "another server": other} {
		if got, err := ring.NodeKey(root); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	stranger, err := keyring.Open(t.TempDir(), "s3")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.NodeKey(root); err == nil {
		t.Error("a server that cannot open the root key derives its key")
	}
}
