// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
)

// memo is what the host stores about a plugin across restarts of the agent, besides
// its process.
type memo struct {
	Disabled bool `json:",omitempty"`
	// Kept means that the process of a plugin that is disabled, or whose file was
	// removed, still has tasks.
	Kept bool `json:",omitempty"`
	// Running is the digest of the version that last worked, Previous of the one
	// before. The store has copies of both.
	Running  string `json:",omitempty"`
	Previous string `json:",omitempty"`
	// Bad lists versions that failed, newest last.
	Bad []BadVersion `json:",omitempty"`
	// Config is the config of the release; if not nil, it replaces the agent's block.
	Config map[string]any `json:",omitempty"`
}

// BadVersion is a version that failed and is not tried again automatically.
type BadVersion struct{ Digest, Why string }

// maxBad is the number of bad versions that are remembered per plugin.
const maxBad = 16

func (m *memo) bad(digest string) (why string, is bool) {
	for _, b := range m.Bad {
		if b.Digest == digest {
			return b.Why, true
		}
	}
	return "", false
}

func (m *memo) addBad(digest, why string) {
	m.forgive(digest)
	m.Bad = append(m.Bad, BadVersion{digest, why})
	m.Bad = m.Bad[max(0, len(m.Bad)-maxBad):]
}

func (m *memo) forgive(digest string) {
	m.Bad = slices.DeleteFunc(m.Bad, func(b BadVersion) bool { return b.Digest == digest })
}

// catalog holds the memos of all plugins. They are few, so they are stored as one
// value.
type catalog struct {
	store process.Store // may be nil

	mu    sync.Mutex
	memos map[string]*memo
}

const catalogKey = "pluginhost-catalog"

func newCatalog(store process.Store) *catalog {
	return &catalog{store: store, memos: map[string]*memo{}}
}

func (c *catalog) load(ctx context.Context) error {
	if c.store == nil {
		return nil
	}
	body, err := c.store.Get(ctx, catalogKey)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what is known of the plugins: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := json.Unmarshal(body, &c.memos); err != nil {
		return errdefs.Internalf("decode what is known of the plugins: %w", err)
	}
	return nil
}

// get returns a copy.
func (c *catalog) get(name string) memo {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.memos[name]; m != nil {
		out := *m
		out.Bad = slices.Clone(m.Bad)
		return out
	}
	return memo{}
}

// names returns the plugins that something is known of.
func (c *catalog) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for name := range c.memos {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// change changes a memo; the change is either durable or not made.
func (c *catalog) change(ctx context.Context, name string, f func(*memo)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.memos[name]
	next := memo{}
	if before != nil {
		next = *before
		next.Bad = slices.Clone(before.Bad)
	}
	f(&next)
	return c.put(ctx, name, before, &next)
}

// forget drops a memo.
func (c *catalog) forget(ctx context.Context, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.memos[name]
	if before == nil {
		return nil
	}
	return c.put(ctx, name, before, nil)
}

// put replaces a memo; c.mu is held.
func (c *catalog) put(ctx context.Context, name string, before, next *memo) error {
	set := func(m *memo) {
		if m == nil {
			delete(c.memos, name)
			return
		}
		c.memos[name] = m
	}
	set(next)
	if c.store == nil {
		return nil
	}
	body, err := json.Marshal(c.memos)
	if err == nil {
		err = c.store.Put(ctx, catalogKey, body)
	}
	if err != nil {
		set(before)
		return fmt.Errorf("keep what is known of plugin %q: %w", name, err)
	}
	return nil
}
