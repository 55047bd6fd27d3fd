// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package install

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Memo is what the host stores about a plugin across restarts of the agent, besides
// its process.
type Memo struct {
	Disabled bool `json:",omitempty"`
	// Kept means that the process of a plugin that is disabled, or whose file was
	// removed, still has tasks.
	Kept bool `json:",omitempty"`
	// Running is the digest of the version that last worked, Previous of the one
	// before. The store has copies of both.
	Running  string `json:",omitempty"`
	Previous string `json:",omitempty"`
	// Serves lists the names that the plugin owns: it served them last. No two plugins own
	// the same name.
	Serves []string `json:",omitempty"`
	// Bad lists versions that failed, newest last.
	Bad []BadVersion `json:",omitempty"`
	// Config is the config of the release; if not nil, it replaces the agent's block.
	Config map[string]any `json:",omitempty"`
}

// BadVersion is a version that failed and is not tried again automatically.
type BadVersion struct {
	Digest string
	Why    string
	At     time.Time `json:",omitzero"` // when it failed; zero if it was recorded before times were
}

// maxBad is the number of bad versions that are remembered per plugin.
const maxBad = 16

// IsBad reports whether a version has failed, and why.
func (m *Memo) IsBad(digest string) (why string, is bool) {
	for _, b := range m.Bad {
		if b.Digest == digest {
			return b.Why, true
		}
	}
	return "", false
}

// AddBad records that a version has failed.
func (m *Memo) AddBad(digest, why string, at time.Time) {
	m.Forgive(digest)
	m.Bad = append(m.Bad, BadVersion{digest, why, at})
	m.Bad = m.Bad[max(0, len(m.Bad)-maxBad):]
}

// Forgive forgets that a version has failed.
func (m *Memo) Forgive(digest string) {
	m.Bad = slices.DeleteFunc(m.Bad, func(b BadVersion) bool { return b.Digest == digest })
}

// Catalog holds the memos of all plugins. They are few, so they are stored as one
// value.
type Catalog struct {
	store process.Store // may be nil

	mu    sync.Mutex
	memos map[string]*Memo
}

const catalogKey = "pluginhost-catalog"

// NewCatalog returns an empty catalog over a store, which may be nil.
func NewCatalog(store process.Store) *Catalog {
	return &Catalog{store: store, memos: map[string]*Memo{}}
}

// Load reads what earlier processes of this agent have stored.
func (c *Catalog) Load(ctx context.Context) error {
	if c.store == nil {
		return nil
	}
	body, err := c.store.Get(ctx, catalogKey)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the stored data of the plugins: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := json.Unmarshal(body, &c.memos); err != nil {
		return errdefs.Internalf("decode the stored data of the plugins: %w", err)
	}
	return nil
}

// Get returns a copy.
func (c *Catalog) Get(name string) Memo {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.memos[name]; m != nil {
		out := *m
		out.Bad = slices.Clone(m.Bad)
		return out
	}
	return Memo{}
}

// Names returns the plugins that something is known of.
func (c *Catalog) Names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for name := range c.memos {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Change changes a memo; the change is either durable or not made.
func (c *Catalog) Change(ctx context.Context, name string, f func(*Memo)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.memos[name]
	next := Memo{}
	if before != nil {
		next = *before
		next.Bad = slices.Clone(before.Bad)
	}
	f(&next)
	return c.put(ctx, name, before, &next)
}

// Own records that a plugin serves the names, and no other plugin does.
func (c *Catalog) Own(ctx context.Context, name string, serves []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, next := c.memos, maps.Clone(c.memos)
	for other, m := range c.memos {
		if other != name && slices.ContainsFunc(m.Serves, func(id string) bool { return slices.Contains(serves, id) }) {
			less := *m
			less.Serves = slices.DeleteFunc(slices.Clone(m.Serves), func(id string) bool { return slices.Contains(serves, id) })
			next[other] = &less
		}
	}
	own := Memo{}
	if m := c.memos[name]; m != nil {
		own = *m
	}
	if slices.Equal(own.Serves, serves) && maps.Equal(before, next) {
		return nil
	}
	own.Serves, next[name] = serves, &own
	c.memos = next
	if err := c.save(ctx); err != nil {
		c.memos = before
		return fmt.Errorf("keep which names plugin %q serves: %w", name, err)
	}
	return nil
}

// OwnerOf returns the plugin that served a name last; "" if none did.
func (c *Catalog) OwnerOf(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, m := range c.memos {
		if slices.Contains(m.Serves, id) {
			return name
		}
	}
	return ""
}

// Forget drops a memo.
func (c *Catalog) Forget(ctx context.Context, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.memos[name]
	if before == nil {
		return nil
	}
	return c.put(ctx, name, before, nil)
}

// put replaces a memo; c.mu is held.
func (c *Catalog) put(ctx context.Context, name string, before, next *Memo) error {
	set := func(m *Memo) {
		if m == nil {
			delete(c.memos, name)
			return
		}
		c.memos[name] = m
	}
	set(next)
	if err := c.save(ctx); err != nil {
		set(before)
		return fmt.Errorf("store the data of plugin %q: %w", name, err)
	}
	return nil
}

// save stores all memos; c.mu is held.
func (c *Catalog) save(ctx context.Context) error {
	if c.store == nil {
		return nil
	}
	body, err := json.Marshal(c.memos)
	if err != nil {
		return err
	}
	return c.store.Put(ctx, catalogKey, body)
}
