// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package logins keeps the credentials with which workloads of a node act in clusters outside of
// Drover, such as those of Consul: it logs in with a signed token of the workload, logs in
// anew before a credential ends, and logs out. What it has is on disk, so that an agent that
// was killed logs out of everything that it has left. It does not decide which workloads log in
// (core/agent/alloc says so) nor when they are done (core/agent/registrar does). Only
// core/agent and these two may import it.
package logins

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/pluginhost/registry"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Host is the part of the plugin host that logs in.
type Host interface {
	LoginAt(ctx context.Context, registryName string, r registry.LoginRequest) (*registry.Login, error)
	LogoutFrom(ctx context.Context, registryName, cluster string, c registry.Credential) error
}

// Store keeps values on disk. *local.Store implements it.
type Store interface {
	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, value []byte) error
}

// Config configures a Keeper.
type Config struct {
	Host  Host
	Store Store
	// Sign returns a signed token for an identity of a task of an alloc, or of a service. The
	// task is "" for a service of the group.
	Sign   func(ctx context.Context, allocID, task, identity string) (string, error)
	Now    func() time.Time
	Logger hclog.Logger
}

// Place is a cluster of a registry.
type Place struct{ Registry, Cluster string }

// Login says who logs in where.
type Login struct {
	Place
	// ID is the id of the service, or TaskID.
	ID  string
	For registry.LoginFor
	// Identity is the name of an identity of the task, or of one of its services.
	AllocID, Task, Identity string
	Meta                    map[string]string
}

// TaskID is the ID of the login of a task.
func TaskID(allocID, task string) string { return "task/" + allocID + "/" + task }

// held is a credential. It ends at Until and is replaced at Renew; a zero time means never.
type held struct {
	registry.Credential
	Until, Renew time.Time
}

// Keeper keeps the credentials of a node's workloads.
type Keeper struct {
	cfg   Config
	mu    sync.Mutex
	books map[Place]*book
}

// book holds the credentials of one place.
type book struct {
	key string

	mu      sync.Mutex
	loaded  bool
	held    map[string]held          // by the ids of logins
	unsaved map[string]held          // new ones that are not on disk yet, so that nobody may use them
	turns   map[string]chan struct{} // by the id of a login that is in progress; closed when it ends
	changes uint64                   // of held and unsaved

	// writing is held while the book is written, so that mu need not be.
	writing sync.Mutex
	written uint64 // the changes that are on disk
}

// New makes a keeper.
func New(cfg Config) *Keeper { return &Keeper{cfg: cfg, books: map[Place]*book{}} }

// open returns the book of a place, which it reads from disk the first time.
func (k *Keeper) open(ctx context.Context, at Place) (*book, error) {
	k.mu.Lock()
	b := k.books[at]
	if b == nil {
		b = &book{key: "logins/" + at.Registry + "/" + at.Cluster, turns: map[string]chan struct{}{}}
		k.books[at] = b
	}
	k.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.loaded {
		return b, nil
	}
	body, err := k.cfg.Store.Get(ctx, b.key)
	switch {
	case errdefs.IsNotFound(err):
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(body, &b.held); err != nil {
			k.cfg.Logger.Warn("the stored credentials of a cluster are damaged; workloads log in again", "registry", at.Registry, "cluster", at.Cluster, "error", err)
		}
	}
	if b.held == nil {
		b.held = map[string]held{}
	}
	b.unsaved = map[string]held{}
	b.loaded = true
	return b, nil
}

// change changes the book and returns when that is on disk. Callers that wait for a write
// under way share the next one.
func (k *Keeper) change(ctx context.Context, b *book, do func()) error {
	b.mu.Lock()
	do()
	b.changes++
	mine := b.changes
	b.mu.Unlock()
	b.writing.Lock()
	defer b.writing.Unlock()
	if b.written >= mine {
		return nil
	}
	b.mu.Lock()
	all, newest := maps.Clone(b.held), b.changes
	maps.Copy(all, b.unsaved)
	b.mu.Unlock()
	body, err := json.Marshal(all)
	if err != nil {
		return errdefs.Internalf("encode the credentials of workloads: %w", err)
	}
	if err := k.cfg.Store.Put(ctx, b.key, body); err != nil {
		return err
	}
	b.written = newest
	return nil
}

// Get returns the credential of a login, and logs in if there is none or it is due for
// replacement. A credential that cannot be replaced is returned though it is due: what was
// registered with it stays. Unavailable: ask again.
func (k *Keeper) Get(ctx context.Context, l Login) (registry.Credential, error) {
	b, err := k.open(ctx, l.Place)
	if err != nil {
		return registry.Credential{}, err
	}
	for {
		b.mu.Lock()
		has, ok := b.held[l.ID]
		if ok && (has.Renew.IsZero() || k.cfg.Now().Before(has.Renew)) {
			b.mu.Unlock()
			return has.Credential, nil
		}
		turn := b.turns[l.ID]
		if turn == nil {
			turn = make(chan struct{})
			b.turns[l.ID] = turn
			b.mu.Unlock()
			return k.renew(ctx, b, l, has, turn)
		}
		b.mu.Unlock()
		select {
		case <-turn:
		case <-ctx.Done():
			return registry.Credential{}, ctx.Err()
		}
	}
}

// renew logs in. has is the credential until now, if there is one.
func (k *Keeper) renew(ctx context.Context, b *book, l Login, has held, turn chan struct{}) (registry.Credential, error) {
	next, err := k.login(ctx, l)
	if err == nil {
		if err = k.change(ctx, b, func() { b.unsaved[l.ID] = next }); err != nil {
			// Nobody would ever log out of what is not on disk. Another write may have stored it
			// meanwhile, so it is removed again.
			_ = k.change(ctx, b, func() { delete(b.unsaved, l.ID) })
			_ = k.cfg.Host.LogoutFrom(ctx, l.Registry, l.Cluster, next.Credential)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	defer close(turn)
	delete(b.turns, l.ID)
	delete(b.unsaved, l.ID)
	if err == nil {
		b.held[l.ID] = next
		return next.Credential, nil
	}
	if has.Secret != "" {
		k.cfg.Logger.Warn("a workload cannot log in again; it keeps the credential that it has", "registry", l.Registry, "cluster", l.Cluster, "alloc", l.AllocID, "identity", l.Identity, "ends", has.Until, "error", err)
		return has.Credential, nil
	}
	return registry.Credential{}, err
}

func (k *Keeper) login(ctx context.Context, l Login) (held, error) {
	token, err := k.cfg.Sign(ctx, l.AllocID, l.Task, l.Identity)
	if err != nil {
		return held{}, errdefs.New(errdefs.ClassOf(err), fmt.Errorf("get the token of identity %q: %w", l.Identity, err))
	}
	got, err := k.cfg.Host.LoginAt(ctx, l.Registry, registry.LoginRequest{Cluster: l.Cluster, For: l.For, Token: token, Meta: l.Meta})
	if err != nil {
		return held{}, err
	}
	out := held{Credential: got.Credential}
	if got.TTL > 0 {
		now := k.cfg.Now()
		out.Until, out.Renew = now.Add(got.TTL), now.Add(got.TTL/2)
	}
	return out, nil
}

// Has returns the credential of a login if there is one, and does not log in.
func (k *Keeper) Has(ctx context.Context, at Place, id string) (registry.Credential, bool) {
	b, err := k.open(ctx, at)
	if err != nil {
		return registry.Credential{}, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	has, ok := b.held[id]
	return has.Credential, ok
}

// All returns the credentials of a place by the ids of their logins.
func (k *Keeper) All(ctx context.Context, at Place) (map[string]registry.Credential, error) {
	b, err := k.open(ctx, at)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[string]registry.Credential, len(b.held))
	for id, has := range b.held {
		out[id] = has.Credential
	}
	return out, nil
}

// Forget removes a credential that the cluster does not know any more. The next Get logs in.
func (k *Keeper) Forget(ctx context.Context, at Place, id string, c registry.Credential) error {
	b, err := k.open(ctx, at)
	if err != nil {
		return err
	}
	return k.change(ctx, b, func() {
		if b.held[id].Credential == c { // otherwise it was replaced meanwhile
			delete(b.held, id)
		}
	})
}

// Keep logs out of everything but the wanted logins of a place. What cannot be reached is
// tried again by the next call.
func (k *Keeper) Keep(ctx context.Context, at Place, wanted map[string]bool) error {
	b, err := k.open(ctx, at)
	if err != nil {
		return err
	}
	b.mu.Lock()
	leave := maps.Clone(b.held)
	maps.DeleteFunc(leave, func(id string, _ held) bool { return wanted[id] || b.turns[id] != nil })
	b.mu.Unlock()
	if len(leave) == 0 {
		return nil
	}
	var failed error
	var gone []string
	for _, id := range slices.Sorted(maps.Keys(leave)) {
		err := k.cfg.Host.LogoutFrom(ctx, at.Registry, at.Cluster, leave[id].Credential)
		if err != nil && (errdefs.IsRetryable(err) || ctx.Err() != nil) {
			failed = err
			break
		}
		if err != nil {
			k.cfg.Logger.Warn("a credential of a workload could not be ended; it is forgotten", "registry", at.Registry, "cluster", at.Cluster, "credential", leave[id].ID, "error", err)
		}
		gone = append(gone, id)
	}
	err = k.change(ctx, b, func() {
		for _, id := range gone {
			if b.held[id] == leave[id] {
				delete(b.held, id)
			}
		}
	})
	if err != nil {
		return err
	}
	return failed
}
