// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package releases owns what a node does about the cluster's registry of plugins: it
// requests the node's releases from the servers, makes the plugin host install and
// remove them, remembers what the registry has installed, and reports the results. It
// makes no decisions about roll-outs (core/registry does) and does not know plugin
// processes (core/pluginhost does). Only core/agent may import it.
//
// The node keeps what it has while servers are away. A plugin that was on the node
// before it was registered belongs to the operator: it may be replaced, but is never
// removed.
package releases

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Servers is the part of rpc.Servers that a Keeper uses.
type Servers interface {
	Plugins(ctx context.Context, id rpc.Identity) (rpc.PluginAnswer, error)
	PluginFile(ctx context.Context, id rpc.Identity, digest string, take func([]byte) error) error
}

// Host is the part of the plugin host that a Keeper uses.
type Host interface {
	// Install switches to a release; it returns when the outcome is known. The
	// file is read from body, or fetched from the release's source if body is nil.
	Install(ctx context.Context, name string, r *model.PluginRelease, body io.Reader) error
	// Remove stops a plugin and deletes its file. FailedPrecondition: it has tasks.
	Remove(ctx context.Context, name string) error
	// Digests returns the digest of each plugin's file by name, "" where it is not
	// known yet, and a channel that is closed when plugins have changed.
	Digests() (map[string]string, <-chan struct{})
}

// Store keeps bytes over restarts of the agent.
type Store interface {
	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, value []byte) error
}

// Config holds the dependencies of a Keeper. All except Changed are required.
type Config struct {
	Servers  Servers
	Identity rpc.Identity
	Host     Host
	Store    Store
	Logger   hclog.Logger
	// Changed is called when the result of Report has changed.
	Changed func()
}

const (
	storeKey       = "releases"
	askTimeout     = 30 * time.Second
	installTimeout = 10 * time.Minute
	askEvery       = 5 * time.Minute        // even without a notification
	settle         = 500 * time.Millisecond // a change of a plugin causes many events
	retryMin       = time.Second
	retryMax       = time.Minute
	maxErrorText   = 1 << 10
)

// held is the release of one plugin that the registry has installed. It is stored on disk.
type held struct {
	Revision uint64 // the running revision, 0 if none from the registry runs
	Digest   string
	Before   *held  `json:",omitempty"` // the release before it, to which a failed plugin is rolled back
	Found    bool   `json:",omitempty"` // a plugin with that name existed before
	Failed   uint64 `json:",omitempty"`
	Error    string `json:",omitempty"`
}

// attempt is the last attempt to install a revision.
type attempt struct {
	revision uint64
	failures int
	next     time.Time // zero: never again
}

// Keeper keeps the node's plugins as the registry assigns them, while Run runs.
type Keeper struct {
	cfg Config
	ask chan struct{}
	// The fields below are used only by the goroutine of Run.
	seen     uint64 // index of the newest answer
	attempts map[string]*attempt
	failures int // consecutive failed requests to the servers

	mu   sync.Mutex
	held map[string]*held
}

// New returns a Keeper with the stored state of an earlier one.
func New(ctx context.Context, cfg Config) (*Keeper, error) {
	k := &Keeper{cfg: cfg, ask: make(chan struct{}, 1), attempts: map[string]*attempt{}, held: map[string]*held{}}
	body, err := cfg.Store.Get(ctx, storeKey)
	if errdefs.IsNotFound(err) {
		return k, nil
	} else if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &k.held); err != nil {
		return nil, errdefs.Internalf("what the node keeps of the registry's plugins is damaged: %w", err)
	}
	return k, nil
}

// Ask makes the Keeper query the servers soon.
func (k *Keeper) Ask() {
	select {
	case k.ask <- struct{}{}:
	default:
	}
}

// Report returns the node's report to the servers, by plugin.
func (k *Keeper) Report() map[string]*model.NodeRelease {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.held) == 0 {
		return nil
	}
	out := make(map[string]*model.NodeRelease, len(k.held))
	for name, h := range k.held {
		out[name] = &model.NodeRelease{Revision: h.Revision, Failed: h.Failed, Error: h.Error}
	}
	return out
}

// Run works until ctx ends. Its first query waits for Ask.
func (k *Keeper) Run(ctx context.Context) {
	timer := time.NewTimer(askEvery)
	defer timer.Stop()
	for {
		_, changed := k.cfg.Host.Digests()
		if k.notice(ctx) { // after the channel: no change is missed
			k.Ask()
		}
		select {
		case <-k.ask:
			timer.Reset(k.pass(ctx))
		case <-timer.C:
			timer.Reset(k.pass(ctx))
		case <-changed:
			_ = sleep.For(ctx, settle)
		case <-ctx.Done():
			return
		}
	}
}

// pass applies the servers' assignments once, and returns when to do so again.
func (k *Keeper) pass(ctx context.Context) time.Duration {
	call, cancel := context.WithTimeout(ctx, askTimeout)
	answer, err := k.cfg.Servers.Plugins(call, k.cfg.Identity)
	cancel()
	if err != nil {
		k.failures++
		k.cfg.Logger.Debug("the servers do not answer which plugins this node should have; it keeps its plugins", "error", err)
		return backoff(k.failures)
	}
	k.failures = 0
	if answer.Index < k.seen {
		return retryMax // an older state than before: ignore it
	}
	k.seen = answer.Index
	k.notice(ctx)
	wanted := map[string]bool{}
	for _, w := range answer.Plugins {
		wanted[w.Name] = true
		switch {
		case w.Release == nil:
			delete(k.attempts, w.Name)
		case ctx.Err() == nil:
			k.have(ctx, w.Name, w.Release)
		}
	}
	for _, name := range k.names() {
		if !wanted[name] && answer.Confirmed && ctx.Err() == nil {
			k.drop(ctx, name)
		}
	}
	return k.untilNext()
}

// untilNext returns the time until the earliest retry, or else the usual interval.
func (k *Keeper) untilNext() time.Duration {
	wait := askEvery - rand.N(askEvery/8)
	for _, a := range k.attempts {
		if !a.next.IsZero() {
			wait = min(wait, max(time.Until(a.next), retryMin))
		}
	}
	return wait
}

func backoff(failures int) time.Duration {
	d := min(retryMin<<min(failures-1, 10), retryMax)
	return d + rand.N(d/4)
}

func (k *Keeper) names() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.held))
}

// get returns a copy of the stored record of a plugin.
func (k *Keeper) get(name string) (held, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.held[name]
	if h == nil {
		return held{}, false
	}
	return *h, true
}

// set stores the record of a plugin (nil removes it) and notifies those who wait for a
// change.
func (k *Keeper) set(ctx context.Context, name string, h *held) {
	k.mu.Lock()
	if old := k.held[name]; h != nil && old != nil && *old == *h {
		k.mu.Unlock()
		return
	}
	if h == nil {
		delete(k.held, name)
	} else {
		k.held[name] = h
	}
	body, err := json.Marshal(k.held)
	k.mu.Unlock()
	if err == nil {
		// An agent that ends now must still remember what it did.
		err = k.cfg.Store.Put(context.WithoutCancel(ctx), storeKey, body)
	}
	if err != nil {
		k.cfg.Logger.Error("could not store what the registry has installed on this node; after a restart of the agent it may be installed again, or stay", "plugin", name, "error", err)
	}
	if k.cfg.Changed != nil {
		k.cfg.Changed()
	}
}
