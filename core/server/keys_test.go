// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/auth/keyring"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/control/keys"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/server"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

func putVariable(t *testing.T, on *testkit.Member, path string) {
	t.Helper()
	testkit.Eventually(t, "the leader writes a variable", func() bool {
		_, _, err := on.Endpoint().PutVariable(t.Context(), &api.VariableRequest{Namespace: "default", Path: path, Items: map[string]string{"password": "hunter2"}})
		if err != nil && !errdefs.IsUnavailable(err) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// reads waits until a server reads a variable. Until then its errors must be Unavailable.
func reads(t *testing.T, on *testkit.Member, path string) {
	t.Helper()
	testkit.Eventually(t, "the server reads the variable "+path, func() bool {
		row := on.Endpoint().Store.View().VariableByPath("default", path)
		if row == nil {
			return false
		}
		v, err := on.Endpoint().OpenVariable(row)
		if err != nil && !errdefs.IsUnavailable(err) {
			t.Fatal(err)
		}
		return err == nil && v.Items["password"] == "hunter2"
	})
}

func wraps(on *testkit.Member) (n int) {
	for k := range on.Endpoint().Store.View().RootKeys() {
		n += len(k.Wraps)
	}
	return n
}

func TestEveryServerReadsVariablesAlsoOneThatJoinsAndOneThatWasRemovedLosesItsKeys(t *testing.T) {
	c := testkit.NewServers(t, 3)
	lead := c.Leader()
	putVariable(t, lead, "a")
	for _, m := range c.All {
		reads(t, m, "a")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := lead.Endpoint().RotateKey(ctx, &api.RotateKeyRequest{}); err != nil {
		t.Fatal(err)
	}
	putVariable(t, lead, "b")

	fresh := c.Add()
	fresh.Start()
	if err := lead.Raft().AddServer(ctx, consensus.Server{ID: fresh.ID(), Address: fresh.Address, Voter: true}); err != nil {
		t.Fatal(err)
	}
	reads(t, fresh, "a")
	reads(t, fresh, "b")
	if n := wraps(lead); n != 2*4 {
		t.Errorf("%d wraps of two keys for four servers", n)
	}

	gone := fresh.ID()
	fresh.Stop()
	if err := lead.Raft().RemoveServer(ctx, gone); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "its key and its wraps are removed", func() bool {
		return lead.Endpoint().Store.View().ServerKeyByID(gone) == nil && wraps(lead) == 2*3
	})

	lead.Stop() // and the others go on without it
	next := c.Leader()
	putVariable(t, next, "c")
	reads(t, next, "b")
}

// old returns a data directory as that of the release before key pairs, whose root key is
// sealed with keyring.key.
func old(t *testing.T) string {
	t.Helper()
	dir, key, secret := t.TempDir(), make([]byte, 32), make([]byte, 32)
	rand.Read(key)
	rand.Read(secret)
	if err := os.WriteFile(filepath.Join(dir, keyring.SealName), key, 0o600); err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(pair)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(pair.Public())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("", func(t *testing.T) {
		c := testkit.StartWith(t, server.Config{DataDir: dir, Level: 1})
		if _, err := propose.Commands(t.Context(), c.Server.Raft(), &fsm.UpsertRootKey{Key: &model.RootKey{
			KeyID: "k", State: model.RootKeyActive, Algorithm: model.RootKeyAlgorithm,
			Sealed: seal.Seal(nil, nil, secret, []byte("aes k")), SealedRSA: seal.Seal(nil, nil, private, []byte("rsa k")), PublicRSA: public,
		}}); err != nil {
			t.Fatal(err)
		}
		c.Must("PUT", "/v1/var/app/db", `{"Items":{"password":"hunter2"}}`, nil)
	})
	return dir
}

func TestADataDirectoryWithAKeyFileIsMigratedAndTheFileIsRemovedLast(t *testing.T) {
	dir := old(t)
	file := filepath.Join(dir, keyring.SealName)
	sealed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T, c *testkit.Cluster) {
		var v struct{ Items map[string]string }
		c.Must("GET", "/v1/var/app/db", nil, &v)
		if v.Items["password"] != "hunter2" {
			t.Errorf("the variable holds %v", v.Items)
		}
		var jwks struct{ Keys []struct{ Kid string } }
		c.Must("GET", "/.well-known/jwks.json", nil, &jwks)
		if len(jwks.Keys) != 2 || jwks.Keys[1].Kid != jwks.Keys[0].Kid+".ed25519" { // one root key, by two algorithms
			t.Errorf("signing keys %v", jwks)
		}
	}
	gone := func() bool {
		_, err := os.Stat(file)
		return os.IsNotExist(err)
	}
	// As one of a release that does not read key pairs: nothing is changed.
	t.Run("beside older servers", func(t *testing.T) {
		c := testkit.StartWith(t, server.Config{DataDir: dir, Level: 1})
		check(t, c)
		for k := range c.Store.View().RootKeys() {
			if len(k.Sealed) == 0 || gone() {
				t.Error("a cluster of level 1 was migrated")
			}
		}
	})
	inDir(t, dir, func(t *testing.T, c *testkit.Cluster) {
		check(t, c)
		c.Eventually("the key file is removed", gone)
		for k := range c.Store.View().RootKeys() {
			if len(k.Sealed)+len(k.SealedRSA) > 0 || len(k.Wraps) != 1 || len(k.SecretRSA) == 0 {
				t.Errorf("%+v", k)
			}
			if _, err := c.Endpoint.Keyring.SigningKey(k); err != nil {
				t.Error(err)
			}
		}
		check(t, c)
	})
	inDir(t, dir, check)
	// It was killed before the file was removed: that is made up for.
	if err := os.WriteFile(file, sealed, 0o600); err != nil {
		t.Fatal(err)
	}
	inDir(t, dir, func(t *testing.T, c *testkit.Cluster) { c.Eventually("the key file is removed", gone); check(t, c) })
}

func TestADataDirectoryOfWhichTheKeyFileIsMissingIsRefusedBeforeItsMigration(t *testing.T) {
	dir := old(t)
	for _, name := range []string{keyring.SealName, keyring.FileName} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, "without the file", dir, keyring.SealName, "is sealed with a file that is not here")
	if _, err := os.Stat(filepath.Join(dir, keyring.FileName)); !os.IsNotExist(err) {
		t.Errorf("a key pair was written: %v", err)
	}
}

func TestASnapshotOfAnotherClusterNeedsAKeyFileOfItsServers(t *testing.T) {
	from := t.TempDir()
	var saved []byte
	inDir(t, from, func(t *testing.T, c *testkit.Cluster) {
		c.Must("PUT", "/v1/var/app/db", `{"Items":{"password":"hunter2"}}`, nil)
		c.Eventually("the key is shared", func() bool { return c.Store.View().ServerKeyByID(c.Server.ID()) != nil })
		_, text := c.Ask("GET", "/v1/operator/snapshot", nil)
		saved = []byte(text)
	})
	former, err := os.ReadFile(filepath.Join(from, keyring.FileName))
	if err != nil {
		t.Fatal(err)
	}
	c := testkit.NewServers(t, 3)
	lead := c.Leader()
	putVariable(t, lead, "here")
	restore := func() error { return lead.Snapshots().Restore(t.Context(), io.NopCloser(bytes.NewReader(saved))) }
	if err := restore(); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), keyring.FormerName) || !strings.Contains(err.Error(), "nothing was restored") {
		t.Fatalf("without the key: %v", err)
	}
	reads(t, lead, "here")
	if err := os.WriteFile(filepath.Join(lead.Dir, keyring.FormerName), former, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	for _, m := range c.All {
		reads(t, m, "app/db")
	}
	testkit.Eventually(t, "only the members have wraps", func() bool { return wraps(lead) == 3 })
	lead.Stop()
	putVariable(t, c.Leader(), "after")
}

func TestALeaderReplacesOldRootKeysAndRemovesThoseThatNothingNeeds(t *testing.T) {
	c := testkit.NewServers(t, 1, func(cfg *server.Config) {
		cfg.RootKeys = keys.Limits{Rotation: 100 * time.Millisecond, Removal: time.Millisecond, Interval: 20 * time.Millisecond}
	})
	lead := c.Leader()
	putVariable(t, lead, "here")
	row := lead.Endpoint().Store.View().VariableByPath("default", "here")
	seen := map[string]bool{}
	testkit.Eventually(t, "the key was replaced several times", func() bool {
		seen[lead.Endpoint().Store.View().ActiveRootKey().KeyID] = true
		return len(seen) > 4
	})
	testkit.Eventually(t, "only the active key and that of the variable are left", func() bool {
		n := 0
		for range lead.Endpoint().Store.View().RootKeys() {
			n++
		}
		return n <= 2
	})
	if lead.Endpoint().Store.View().RootKeyByID(row.KeyID) == nil {
		t.Error("the key of a variable was removed")
	}
	reads(t, lead, "here")
}
