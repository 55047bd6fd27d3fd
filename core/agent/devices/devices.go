// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package devices keeps which task of the node uses which devices. It reserves devices
// for tasks, says to their plugins when a task has ended, also after a restart of the
// agent, and reports a change of their health to the tasks that use them and to the
// node. It does not choose devices: the scheduler has. Only core/agent imports it.
package devices

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	stateKey = "devices" // where the store has the state
	// retryPause is the pause before a release that failed is repeated. A change of the
	// devices ends it.
	retryPause = 10 * time.Second
	// releaseLimit is how long after the end of its task a release is repeated.
	releaseLimit = 24 * time.Hour
	// maxReleases limits the releases that are said at the same time.
	maxReleases = 16
)

// Plugins are the node's device plugins; *pluginhost.Host implements it.
type Plugins interface {
	Devices() ([]pluginhost.DeviceFingerprint, <-chan struct{})
	ReserveDevices(ctx context.Context, h device.Holder, s device.Set, config map[string]any) (*device.Reservation, error)
	ReleaseDevices(ctx context.Context, h device.Holder, s device.Set) error
}

// Store keeps the state.
type Store interface {
	// Get returns NotFound if there is no value under the key.
	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, value []byte) error
}

// Config is what a keeper needs.
type Config struct {
	Plugins Plugins
	Store   Store
	// InUse reports whether a task uses, or may use, its devices: it has not ended, or its
	// driver is still freeing its resources.
	InUse func(allocID, task string) bool
	// NoteTask adds an event to a task, and NoteNode one to the node. Neither may call the
	// keeper.
	NoteTask func(allocID, task string, ev model.TaskEvent)
	NoteNode func(ev *model.NodeEvent)
	Now      func() time.Time
	Logger   hclog.Logger
}

// Keeper keeps which task uses which devices.
//
// Invariant: no instance is in two uses.
type Keeper struct {
	cfg    Config
	wake   chan struct{} // capacity 1: a task may have ended
	saving sync.Mutex    // held while the state is stored, so that the newest is last
	calls  sync.WaitGroup

	mu      sync.Mutex
	uses    map[string]*use   // by alloc and task
	sick    map[string]string // by instance: why it is not healthy, as was said
	offered map[string]string // by group: the plugin that had it last
	changed chan struct{}     // closed when a use has ended
}

// use is a task with its devices. It is stored before a plugin hears of it, and removed
// after the plugin has confirmed the release.
type use struct {
	Holder device.Holder
	Sets   []device.Set
	// Plugins are the plugins of the groups, by group.
	Plugins map[string]string `json:",omitempty"`
	Ended   time.Time         // when the task was found to have ended; zero while it may use them

	reserving int       // reservations in progress
	releasing bool      // a release is in progress
	next      time.Time // time of the next release, after a failed one
	err       error     // error of the last release
}

// state is the stored form.
type state struct {
	Uses []*use
	Sick map[string]string
}

// New returns a keeper with the uses that an earlier agent has stored. Run does its work.
func New(ctx context.Context, cfg Config) (*Keeper, error) {
	k := &Keeper{cfg: cfg, wake: make(chan struct{}, 1), uses: map[string]*use{}, sick: map[string]string{}, offered: map[string]string{}, changed: make(chan struct{})}
	body, err := cfg.Store.Get(ctx, stateKey)
	if errdefs.IsNotFound(err) {
		return k, nil
	}
	if err != nil {
		return nil, err
	}
	var s state
	if err := json.Unmarshal(body, &s); err != nil {
		return nil, errdefs.Internalf("what the node has stored about the devices of tasks is damaged; remove the node's state directory, its tasks are lost then: %w", err)
	}
	for _, u := range s.Uses {
		k.uses[keyOf(u.Holder)] = u
	}
	maps.Copy(k.sick, s.Sick)
	return k, nil
}

func keyOf(h device.Holder) string { return h.AllocID + "/" + h.Task }

// Look says that a task may have ended. It does not block.
func (k *Keeper) Look() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Reserve reserves the devices of a task and returns how the task accesses them. It waits
// for an instance that another task uses or whose release is not confirmed yet. If ctx ends
// first, the error is Unavailable.
func (k *Keeper) Reserve(ctx context.Context, h device.Holder, asks []alloc.DeviceAsk) (*device.Reservation, error) {
	u, err := k.begin(ctx, h, asks)
	if err != nil {
		return nil, err
	}
	defer k.end(u)
	all := &device.Reservation{Env: map[string]string{}}
	for _, ask := range asks {
		one, err := k.cfg.Plugins.ReserveDevices(ctx, h, ask.Set, ask.Config)
		if err != nil {
			return nil, err
		}
		maps.Copy(all.Env, one.Env)
		all.Mounts, all.Nodes = append(all.Mounts, one.Mounts...), append(all.Nodes, one.Nodes...)
		all.CDIDevices = append(all.CDIDevices, one.CDIDevices...)
	}
	return all, nil
}

// begin waits until the devices are free and stores that the task uses them.
func (k *Keeper) begin(ctx context.Context, h device.Holder, asks []alloc.DeviceAsk) (*use, error) {
	for {
		u, changed, err := k.take(h, asks)
		if err == nil {
			if err := k.save(ctx); err != nil {
				k.end(u)
				return nil, err
			}
			return u, nil
		}
		k.Look() // the one before may have ended
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// take records that a task uses devices, or returns the task that already does.
func (k *Keeper) take(h device.Holder, asks []alloc.DeviceAsk) (*use, <-chan struct{}, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, other := range k.uses {
		if key == keyOf(h) && !other.releasing {
			continue
		}
		for _, ask := range asks {
			if id := other.has(ask.Set); id != "" {
				return nil, k.changed, other.occupied(ask.Set.Group(), id)
			}
		}
	}
	u := k.uses[keyOf(h)]
	if u == nil {
		u = &use{Holder: h}
		k.uses[keyOf(h)] = u
	}
	u.Sets, u.Plugins = nil, map[string]string{} // a release may have been confirmed for some
	for _, ask := range asks {
		u.Sets = append(u.Sets, ask.Set)
		if plugin, ok := k.offered[ask.Set.Group()]; ok {
			u.Plugins[ask.Set.Group()] = plugin
		}
	}
	u.Ended, u.err, u.next = time.Time{}, nil, time.Time{}
	u.reserving++
	return u, nil, nil
}

// has returns an instance that is in both, or "".
func (u *use) has(s device.Set) string {
	for _, mine := range u.Sets {
		if mine.Group() != s.Group() {
			continue
		}
		for _, id := range s.IDs {
			if slices.Contains(mine.IDs, id) {
				return id
			}
		}
	}
	return ""
}

// occupied says why an instance cannot be reserved.
func (u *use) occupied(group, id string) error {
	switch {
	case u.Ended.IsZero():
		return errdefs.Unavailablef("device %s of %s is still used by task %q of alloc %s, which has not ended on this node", id, group, u.Holder.Task, u.Holder.AllocID)
	case u.err != nil:
		return errdefs.Unavailablef("device %s of %s is not released yet by task %q of alloc %s: %w", id, group, u.Holder.Task, u.Holder.AllocID, u.err)
	}
	return errdefs.Unavailablef("device %s of %s is not released yet by task %q of alloc %s", id, group, u.Holder.Task, u.Holder.AllocID)
}

// end says that a reservation is no longer in progress.
func (k *Keeper) end(u *use) {
	k.mu.Lock()
	u.reserving--
	k.mu.Unlock()
	k.Look()
}

// save stores the state.
func (k *Keeper) save(ctx context.Context) error {
	k.saving.Lock()
	defer k.saving.Unlock()
	k.mu.Lock()
	s := state{Sick: k.sick}
	for _, key := range slices.Sorted(maps.Keys(k.uses)) {
		s.Uses = append(s.Uses, k.uses[key])
	}
	body, err := json.Marshal(s)
	k.mu.Unlock()
	if err != nil {
		return errdefs.Internalf("encode which tasks use which devices: %w", err)
	}
	if err := k.cfg.Store.Put(ctx, stateKey, body); err != nil {
		return fmt.Errorf("store which tasks use which devices: %w", err)
	}
	return nil
}
