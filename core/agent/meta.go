// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"encoding/json"
	"maps"
	"sync"

	"github.com/drover-project/drover/core/agent/local"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	metaKey      = "node/meta"
	maxMetaBytes = 64 << 10
)

// dynamicMeta is the node's metadata that was set at run time; it overrides the
// configured metadata and is stored on disk. A nil value hides a configured key.
type dynamicMeta struct {
	mu     sync.Mutex
	values map[string]*string
}

func (m *dynamicMeta) load(ctx context.Context, store *local.Store) error {
	body, err := store.Get(ctx, metaKey)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, &m.values); err != nil {
		return errdefs.Internalf("the node's applied metadata is damaged; remove the node's state directory, its tasks are lost then: %w", err)
	}
	return nil
}

// over returns the configured metadata, overridden by the values set at run time.
func (m *dynamicMeta) over(static map[string]string) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := maps.Clone(static)
	if out == nil {
		out = map[string]string{}
	}
	for k, v := range m.values {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = *v
		}
	}
	return out
}

// apply stores changes before they take effect.
func (m *dynamicMeta) apply(ctx context.Context, store *local.Store, static map[string]string, change map[string]*string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := maps.Clone(m.values)
	if next == nil {
		next = map[string]*string{}
	}
	for k, v := range change {
		if k == "" || len(k) > model.MaxNodeKey {
			return errdefs.InvalidArgumentf("a key of the metadata has %d bytes; it may have 1 to %d", len(k), model.MaxNodeKey)
		}
		if _, configured := static[k]; v == nil && !configured {
			delete(next, k)
			continue
		}
		next[k] = v
	}
	body, err := json.Marshal(next)
	if err != nil {
		return errdefs.Internalf("encode the node's metadata: %w", err)
	}
	if len(body) > maxMetaBytes {
		return errdefs.InvalidArgumentf("the node's applied metadata would be %d bytes, more than %d; take keys away with null", len(body), maxMetaBytes)
	}
	if err := store.Put(ctx, metaKey, body); err != nil {
		return err
	}
	m.values = next
	return nil
}

// metaOf is the node's metadata, as operators read and change it.
type metaOf struct{ *Agent }

// Meta implements serve.Meta.
func (a metaOf) Meta() rpc.NodeMeta {
	static := a.cfg.Node.Meta
	if static == nil {
		static = map[string]string{}
	}
	out := rpc.NodeMeta{Meta: a.meta.over(static), Static: static, Dynamic: map[string]*string{}}
	a.meta.mu.Lock()
	defer a.meta.mu.Unlock()
	maps.Copy(out.Dynamic, a.meta.values)
	return out
}

// SetMeta implements serve.Meta: the node registers with the changed metadata.
func (a metaOf) SetMeta(ctx context.Context, change map[string]*string) error {
	if err := a.meta.apply(ctx, a.store, a.cfg.Node.Meta, change); err != nil {
		return err
	}
	next := a.describe()
	a.mu.Lock()
	a.node = next
	a.mu.Unlock()
	a.session.Touch()
	return nil
}
