// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package keyshare_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/auth/keyring"
	"github.com/drover-project/drover/core/auth/keyshare"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// world is a state with a log, and the servers' directories.
type world struct {
	*testing.T
	store   *state.Store
	machine *fsm.FSM
}

func newWorld(t *testing.T) *world {
	store := state.New()
	w := &world{t, store, fsm.New(store, hclog.NewNullLogger())}
	w.apply(&fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	w.apply(&fsm.RaiseLevel{Level: 2})
	return w
}

func (w *world) Propose(_ context.Context, entry []byte) (uint64, any, error) {
	index := w.store.View().Index() + 1
	answer := w.machine.ApplyBatch([]fsm.Entry{{Index: index, Data: entry}})[0]
	if err, failed := answer.(error); failed {
		return index, nil, err
	}
	return index, answer, nil
}

func (w *world) try(c fsm.Command) error {
	w.Helper()
	data, err := fsm.Encode(c)
	if err != nil {
		w.Fatal(err)
	}
	_, _, err = w.Propose(w.Context(), data)
	return err
}

func (w *world) apply(c fsm.Command) {
	w.Helper()
	if err := w.try(c); err != nil {
		w.Fatal(err)
	}
}

func (w *world) ring(dir, id string) *keyring.Keyring {
	w.Helper()
	k, err := keyring.Open(dir, id)
	if err != nil {
		w.Fatal(err)
	}
	if err := k.Check(w.store.View().RootKeys(), w.store.View().ServerKeyByID(id)); err != nil {
		w.Fatal(err)
	}
	return k
}

// sealedKey stores a root key that is sealed with a keyring.key in dir.
func (w *world) sealedKey(dir string) {
	key, secret := make([]byte, 32), make([]byte, 32)
	rand.Read(key)
	rand.Read(secret)
	if err := os.WriteFile(filepath.Join(dir, keyring.SealName), key, 0o600); err != nil {
		w.Fatal(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		w.Fatal(err)
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		w.Fatal(err)
	}
	w.apply(&fsm.UpsertRootKey{Key: &model.RootKey{KeyID: "k", State: model.RootKeyActive, Sealed: seal.Seal(nil, nil, secret, []byte("aes k"))}})
}

func (w *world) next(ring *keyring.Keyring, members ...string) []fsm.Command {
	w.Helper()
	c, err := keyshare.Next(w.store.View(), ring, members)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

func TestAKillAfterAnyStepOfTheMigrationLeavesTheVariablesReadable(t *testing.T) {
	w, dir := newWorld(t), t.TempDir()
	w.sealedKey(dir)
	root := func() *model.RootKey { return w.store.View().RootKeyByID("k") }
	v := &model.Variable{Namespace: "default", Path: "p", KeyID: "k"}
	var err error
	if v.Data, err = w.ring(dir, "s").Seal(root(), "default", "p", map[string]string{"a": "b"}); err != nil {
		t.Fatal(err)
	}
	steps, done := 0, false
	for !done {
		ring := w.ring(dir, "s") // the server was killed, and starts again
		if items, err := ring.OpenItems(root(), v); err != nil || items["a"] != "b" {
			t.Fatalf("after step %d: %v, %v", steps, items, err)
		}
		if removed, err := ring.Forget(w.store.View().RootKeys()); err != nil || removed && len(root().Sealed) > 0 {
			t.Fatalf("after step %d the file is removed: %t, %v", steps, removed, err)
		}
		commands := w.next(ring, "s")
		if done = len(commands) == 0; !done {
			w.apply(commands[0])
			steps++
		}
	}
	if steps != 2 || len(root().Sealed) > 0 {
		t.Errorf("%d steps, %+v", steps, root())
	}
	if _, err := os.Stat(filepath.Join(dir, keyring.SealName)); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
	if items, err := w.ring(dir, "s").OpenItems(root(), v); err != nil || items["a"] != "b" {
		t.Errorf("without the file: %v, %v", items, err)
	}
}

func TestAServerThatIsNoMemberGetsNothingAndTheLastThatCanOpenAKeyKeepsIt(t *testing.T) {
	w := newWorld(t)
	one, two := w.ring(t.TempDir(), "s1"), w.ring(t.TempDir(), "s2")
	w.apply(&fsm.UpsertServerKey{Key: one.Server()})
	root, err := one.NewKey("k", time.Now(), slices.Values([]*model.ServerKey(nil)))
	if err != nil {
		t.Fatal(err)
	}
	w.apply(&fsm.UpsertRootKey{Key: root})
	s := &keyshare.Sharer{Store: w.store, Log: w, Ring: one, Members: func() ([]string, error) { return []string{"s1"}, nil }, Logger: hclog.NewNullLogger()}
	if err := s.Accept(t.Context(), two.Server()); !errdefs.IsUnavailable(err) {
		t.Errorf("a key of a server that is no member: %v", err)
	}
	if err := s.Accept(t.Context(), &model.ServerKey{ServerID: "s1", Public: []byte("x")}); !errdefs.IsInvalidArgument(err) {
		t.Errorf("a key that is none: %v", err)
	}
	other := two.Server()
	other.ServerID = "s1"
	if err := s.Accept(t.Context(), other); !errdefs.IsConflict(err) {
		t.Errorf("another key of a server: %v", err)
	}
	if err := w.try(&fsm.DeleteServerKey{ServerID: "s1"}); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("the only server that can open a root key loses it: %v", err)
	}
	// A server that leads and has not received the key cannot share it, and says so.
	w.apply(&fsm.UpsertServerKey{Key: two.Server()})
	if _, err := keyshare.Next(w.store.View(), two, []string{"s1", "s2"}); !errdefs.IsUnavailable(err) {
		t.Errorf("a leader without the key: %v", err)
	}
	for _, c := range w.next(one, "s1", "s2") {
		w.apply(c)
	}
	if err := two.Opens(w.store.View().RootKeyByID("k")); err != nil {
		t.Error(err)
	}
	for _, c := range w.next(one, "s1") { // s2 has been removed
		w.apply(c)
	}
	if k := w.store.View().RootKeyByID("k"); len(k.Wraps) != 1 || w.store.View().ServerKeyByID("s2") != nil {
		t.Errorf("%+v", k)
	}
	if rest := w.next(one, "s1"); len(rest) > 0 {
		t.Errorf("it never ends: %+v", rest)
	}
	if rest := w.next(one); len(rest) > 0 {
		t.Errorf("without a configuration: %+v", rest)
	}
}

func TestWrapsForAKeyThatHasChangedMeanwhileAreLeftOutAndASigningKeyOfAnotherLeaderStays(t *testing.T) {
	w := newWorld(t)
	one, two, three := w.ring(t.TempDir(), "s1"), w.ring(t.TempDir(), "s2"), w.ring(t.TempDir(), "s2")
	w.apply(&fsm.UpsertServerKey{Key: one.Server()})
	w.apply(&fsm.UpsertServerKey{Key: two.Server()})
	root, err := one.NewKey("k", time.Now(), w.store.View().ServerKeys())
	if err != nil {
		t.Fatal(err)
	}
	w.apply(&fsm.UpsertRootKey{Key: root})
	late, err := one.Wrap(root, []*model.ServerKey{three.Server()})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.try(&fsm.WrapRootKey{KeyID: "k", Wraps: late}); !errdefs.IsAborted(err) {
		t.Errorf("a wrap for a public key that the cluster does not know: %v", err)
	}
	stale, err := one.WithSigningKey(w.store.View().RootKeyByID("k")) // read before the server is removed
	if err != nil {
		t.Fatal(err)
	}
	w.apply(&fsm.DeleteServerKey{ServerID: "s2"})
	w.apply(&fsm.UpsertRootKey{Key: stale, OnlyKnown: true})
	k := w.store.View().RootKeyByID("k")
	if len(k.Wraps) != 1 || k.Wraps[0].ServerID != "s1" {
		t.Errorf("a removed server has its wrap again: %+v", k.Wraps)
	}
	if _, err := one.SigningKey(k); err != nil {
		t.Error(err)
	}
}

func TestALeaderWithoutTheKeysHandsOverOnlyToAServerThatHasThemAndAVote(t *testing.T) {
	w := newWorld(t)
	one, two := w.ring(t.TempDir(), "s1"), w.ring(t.TempDir(), "s2")
	w.apply(&fsm.UpsertServerKey{Key: one.Server()})
	root, err := one.NewKey("k", time.Now(), slices.Values([]*model.ServerKey(nil)))
	if err != nil {
		t.Fatal(err)
	}
	w.apply(&fsm.UpsertRootKey{Key: root})
	w.apply(&fsm.UpsertServerKey{Key: two.Server()})
	synctest.Test(t, func(t *testing.T) {
		voters, handed := []string{"s2"}, ""
		s := &keyshare.Sharer{
			Store: w.store, Log: w, Ring: two, Logger: hclog.NewNullLogger(),
			Members:  func() ([]string, error) { return []string{"s1", "s2"}, nil },
			CanLead:  func() ([]string, error) { return voters, nil },
			Transfer: func(_ context.Context, to string) error { handed = to; return nil },
		}
		wait := func() {
			for range 3 * 60 {
				_ = s.Once(t.Context())
				time.Sleep(time.Second)
			}
		}
		if wait(); handed != "" {
			t.Errorf("the lead was handed to %s, which has no vote", handed)
		}
		voters = []string{"s1", "s2"}
		if wait(); handed != "s1" {
			t.Errorf("the lead was handed to %q, not to s1", handed)
		}
	})
}
