// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package logins_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/logins"
	"github.com/drover-project/drover/core/pluginhost/registry"
	"github.com/drover-project/drover/sdk/errdefs"
)

// world is a cluster, a disk, signing servers and a clock.
type world struct {
	mu     sync.Mutex
	now    time.Time
	ttl    time.Duration
	made   int
	valid  map[string]bool // secrets
	disk   map[string][]byte
	in     error
	out    error
	signed error
	full   error
	writes int
	// Called before each write, login and logout, if they are set.
	onPut, onLogin, onLogout func()
}

func newWorld() *world {
	return &world{now: time.Unix(1_800_000_000, 0), valid: map[string]bool{}, disk: map[string][]byte{}}
}

func (w *world) keeper() *logins.Keeper {
	return logins.New(logins.Config{
		Host: w, Store: w, Now: func() time.Time { return w.now }, Logger: hclog.NewNullLogger(),
		Sign: func(_ context.Context, allocID, task, identity string) (string, error) {
			return allocID + "/" + task + "/" + identity, w.signed
		},
	})
}

func (w *world) LoginAt(_ context.Context, _ string, r registry.LoginRequest) (*registry.Login, error) {
	if w.onLogin != nil {
		w.onLogin()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.in != nil {
		return nil, w.in
	}
	if r.Token != "a1/t/consul_default" || r.For != registry.ForTask {
		return nil, errdefs.PermissionDeniedf("a stranger: %+v", r)
	}
	w.made++
	secret := fmt.Sprintf("secret-%d", w.made)
	w.valid[secret] = true
	return &registry.Login{Credential: registry.Credential{ID: fmt.Sprintf("id-%d", w.made), Secret: secret}, TTL: w.ttl}, nil
}

func (w *world) LogoutFrom(_ context.Context, _, _ string, c registry.Credential) error {
	if w.onLogout != nil {
		w.onLogout()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out == nil {
		delete(w.valid, c.Secret)
	}
	return w.out
}

func (w *world) Get(_ context.Context, key string) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if body, ok := w.disk[key]; ok {
		return body, nil
	}
	return nil, errdefs.NotFoundf("nothing under %q", key)
}

func (w *world) Put(_ context.Context, key string, value []byte) error {
	if w.onPut != nil {
		w.onPut()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	if w.full == nil {
		w.disk[key] = value
	}
	return w.full
}

var (
	place = logins.Place{Registry: "consul", Cluster: "default"}
	task  = logins.Login{Place: place, ID: logins.TaskID("a1", "t"), For: registry.ForTask, AllocID: "a1", Task: "t", Identity: "consul_default"}
)

func get(t *testing.T, k *logins.Keeper) registry.Credential {
	t.Helper()
	c, err := k.Get(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAWorkloadLogsInOnceAlsoIfTheAgentWasKilled(t *testing.T) {
	w := newWorld()
	k := w.keeper()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := k.Get(t.Context(), task); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if c := get(t, w.keeper()); c.ID != "id-1" || w.made != 1 {
		t.Errorf("another agent process has %+v after %d logins", c, w.made)
	}
}

func TestWhatNobodyWantsIsLoggedOutAlsoIfTheAgentWasKilled(t *testing.T) {
	w := newWorld()
	get(t, w.keeper())
	k := w.keeper()
	if err := k.Keep(t.Context(), place, map[string]bool{task.ID: true}); err != nil || len(w.valid) != 1 {
		t.Errorf("what is wanted: %v, valid %v", err, w.valid)
	}
	w.out = errdefs.Unavailablef("the cluster is away")
	if err := k.Keep(t.Context(), place, nil); !errdefs.IsUnavailable(err) {
		t.Errorf("while the cluster is away: %v", err)
	}
	w.out = nil
	k = w.keeper()
	if err := k.Keep(t.Context(), place, nil); err != nil || len(w.valid) != 0 {
		t.Errorf("afterwards: %v, valid %v", err, w.valid)
	}
	if all, err := k.All(t.Context(), place); err != nil || len(all) != 0 {
		t.Errorf("kept: %v, %v", all, err)
	}
	get(t, k)
	w.out = errdefs.PermissionDeniedf("it never lets anybody out")
	if err := k.Keep(t.Context(), place, nil); err != nil {
		t.Errorf("a cluster that refuses: %v", err)
	}
	if _, has := k.Has(t.Context(), place, task.ID); has {
		t.Error("a credential that cannot be ended is kept for ever")
	}
}

func TestACredentialIsReplacedAtHalfOfItsTime(t *testing.T) {
	w := newWorld()
	w.ttl = time.Hour
	k := w.keeper()
	first := get(t, k)
	w.now = w.now.Add(29 * time.Minute)
	if c := get(t, k); c != first {
		t.Errorf("after 29 minutes: %+v", c)
	}
	w.now = w.now.Add(2 * time.Minute)
	w.in = errdefs.Unavailablef("the cluster is away")
	if c := get(t, k); c != first {
		t.Errorf("while the cluster is away: %+v", c)
	}
	w.in = nil
	if c := get(t, k); c == first || !w.valid[first.Secret] {
		t.Errorf("after 31 minutes: %+v; a task may still use the first, valid are %v", c, w.valid)
	}
}

func TestWhatCannotBeStoredIsLoggedOut(t *testing.T) {
	w := newWorld()
	w.full = errdefs.ResourceExhaustedf("the disk is full")
	if c, err := w.keeper().Get(t.Context(), task); !errdefs.IsResourceExhausted(err) || len(w.valid) != 0 {
		t.Errorf("%+v, %v, valid %v", c, err, w.valid)
	}
}

// other is the login of another task.
func other(n int) logins.Login {
	l := task
	l.ID = logins.TaskID("a1", fmt.Sprintf("other-%d", n))
	return l
}

// A disk that is slow, and a cluster that hangs, delay only the login that needs them.
func TestNobodyWaitsForTheLoginOfAnother(t *testing.T) {
	for name, hang := range map[string]func(w *world, f func()){
		"at the disk":    func(w *world, f func()) { w.onPut = f },
		"as it logs out": func(w *world, f func()) { w.full, w.onLogout = errdefs.ResourceExhaustedf("the disk is full"), f },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			k := w.keeper()
			get(t, k)
			hangs, end := make(chan struct{}), make(chan struct{})
			hang(w, sync.OnceFunc(func() { close(hangs); <-end }))
			var all sync.WaitGroup
			all.Go(func() { _, _ = k.Get(context.Background(), other(1)) }) // whether it succeeds does not matter here
			<-hangs
			has := make(chan bool, 1)
			all.Go(func() {
				_, ok := k.Has(context.Background(), place, task.ID)
				has <- ok
			})
			select {
			case ok := <-has:
				if !ok {
					t.Error("the credential that is there was not found")
				}
			case <-time.After(10 * time.Second):
				t.Error("a reader waits for the login of another")
			}
			close(end)
			all.Wait()
		})
	}
}

func TestLoginsAtOnceShareWrites(t *testing.T) {
	w := newWorld()
	k := w.keeper()
	const many = 50
	var in, all sync.WaitGroup
	in.Add(many)
	w.onPut = sync.OnceFunc(in.Wait) // the first write is under way until all have logged in
	w.onLogin = in.Done
	for n := range many {
		all.Go(func() {
			if _, err := k.Get(t.Context(), other(n)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if w.writes > many/2 {
		t.Errorf("%d writes of all credentials for %d logins", w.writes, many)
	}
	kept, err := w.keeper().All(t.Context(), place) // after the agent was killed
	if err != nil || len(kept) != many {
		t.Errorf("%d of %d are on disk, %v", len(kept), many, err)
	}
}

func TestErrorsOfALoginHaveTheirClass(t *testing.T) {
	w := newWorld()
	k := w.keeper()
	stranger := task
	stranger.ID, stranger.AllocID = "task/a2/t", "a2"
	if _, err := k.Get(t.Context(), stranger); !errdefs.IsPermissionDenied(err) {
		t.Errorf("a stranger: %v", err)
	}
	w.signed = errdefs.Unavailablef("no server")
	if _, err := k.Get(t.Context(), task); !errdefs.IsUnavailable(err) || w.made != 0 {
		t.Errorf("without servers: %v", err)
	}
	w.signed = nil
	c := get(t, k)
	if err := k.Forget(t.Context(), place, task.ID, registry.Credential{ID: "another"}); err != nil {
		t.Fatal(err)
	}
	if get(t, k) != c {
		t.Error("another credential than the one that is unknown was forgotten")
	}
	if err := k.Forget(t.Context(), place, task.ID, c); err != nil {
		t.Fatal(err)
	}
	if get(t, k) == c {
		t.Error("an unknown credential is kept")
	}
}
