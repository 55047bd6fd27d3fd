// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package storage is the node's side of storage plugins: it watches the tasks that are CSI
// drivers and runs an instance of the adapter for each driver while such a task runs, tells
// what the node's storage plugins can do, brings volumes to allocs and takes them back,
// removes what belongs to no alloc, and carries out what servers ask of a plugin. Which
// alloc may use a volume is known by servers, and processes are the plugin host's.
package storage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/volume"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Adapter is the plugin that speaks CSI to the drivers that run as tasks.
const Adapter = "csi"

// Plugins runs storage plugins; *pluginhost.Host does.
type Plugins interface {
	Volumes() ([]pluginhost.VolumeFingerprint, <-chan struct{})
	WithVolume(ctx context.Context, name string, do func(context.Context, volume.Backend) error) error
	RunVolume(ctx context.Context, i pluginhost.VolumeInstance) error
	EndVolume(ctx context.Context, plugin, name string) error
}

// Store is the node's durable state.
type Store interface {
	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, value []byte) error
}

// Config is what a Keeper needs.
type Config struct {
	Dir     string // absolute; for sockets of drivers and for volumes
	Plugins Plugins
	Store   Store
	// Claim asks the servers for a volume.
	Claim func(ctx context.Context, q rpc.VolumeQuery) (rpc.VolumeGrant, error)
	// Lives reports whether an alloc has not ended on the node, or may not have.
	Lives func(allocID string) bool
	// Uses reports whether an alloc has volumes, or may have.
	Uses   func(allocID string) bool
	Now    func() time.Time
	Logger hclog.Logger
	Limits Limits
}

// Limits are time limits and pauses of a Keeper. Zero means the default.
type Limits struct {
	Start time.Duration // limit of one try to start an instance of the adapter; default 30 s
	Again time.Duration // pause before the next such try; default 2 s
	Sweep time.Duration // pause between two searches for volumes that belong to no alloc; default 1 min
	Retry time.Duration // pause before a call to a plugin that is away is repeated, doubled each time up to 5 s; default 200 ms
	Gone  time.Duration // how long a plugin must be gone before the node itself unmounts what it left; default 5 min
}

func (l *Limits) setDefaults() {
	l.Start = cmp.Or(l.Start, 30*time.Second)
	l.Again = cmp.Or(l.Again, 2*time.Second)
	l.Sweep = cmp.Or(l.Sweep, time.Minute)
	l.Retry = cmp.Or(l.Retry, 200*time.Millisecond)
	l.Gone = cmp.Or(l.Gone, 5*time.Minute)
}

// retryMax is the longest pause before a call is repeated.
const retryMax = 5 * time.Second

// Keeper keeps the storage of one node.
type Keeper struct {
	cfg     Config
	sockets string
	lanes   lanes

	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	storing sync.Mutex // held while reports are written to disk, so that mu need not be

	mu    sync.Mutex
	slots map[part]*slot
	// reports are by the name of the instance. Neither the map nor an entry is changed. The
	// lock is not held while allocs are asked, since they call the keeper.
	reports map[string]*model.CSIInfo
	own     map[string]*model.CSIInfo    // of plugins that are no instances
	users   map[string]map[string]*Mount // by volume and target path
	grants  map[string]*rpc.VolumeGrant  // by alloc and request
	staged  map[string]bool              // volumes that this process has staged and not unstaged
	gone    map[string]time.Time         // since when plugins are known to be gone, by the names of their node's parts
	changed chan struct{}
	look    chan struct{} // capacity 1: there may be volumes that belong to no alloc
}

// storeKey is the key of what was last reported of drivers.
const storeKey = "storage/reported"

// Open returns the keeper. It knows what an agent before has reported of drivers.
func Open(ctx context.Context, cfg Config) (*Keeper, error) {
	cfg.Limits.setDefaults()
	k := &Keeper{
		cfg: cfg, sockets: socketsOf(cfg.Dir), lanes: lanes{busy: map[string]chan struct{}{}}, slots: map[part]*slot{}, reports: map[string]*model.CSIInfo{}, own: map[string]*model.CSIInfo{},
		users: map[string]map[string]*Mount{}, grants: map[string]*rpc.VolumeGrant{}, gone: map[string]time.Time{}, staged: map[string]bool{}, changed: make(chan struct{}), look: make(chan struct{}, 1),
	}
	k.ctx, k.stop = context.WithCancel(context.WithoutCancel(ctx))
	body, err := cfg.Store.Get(ctx, storeKey)
	switch {
	case errdefs.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("read what was reported of storage drivers: %w", err)
	default:
		if err := json.Unmarshal(body, &k.reports); err != nil {
			return nil, errdefs.Internalf("what was reported of storage drivers is damaged: %w", err)
		}
	}
	for name, r := range k.reports {
		if r == nil {
			delete(k.reports, name)
			continue
		}
		r.Healthy, r.HealthDescription = false, "the agent has started and has not asked the driver yet"
	}
	return k, nil
}

// Run takes back what belongs to no alloc, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	k.work.Go(func() { k.follow(ctx) })
	every := time.NewTicker(k.cfg.Limits.Sweep)
	defer every.Stop()
	for {
		k.sweep(ctx)
		select {
		case <-every.C:
		case <-k.look:
			k.bury()
		case <-ctx.Done():
			return
		}
	}
}

// follow tells of changes of the storage plugins, and once of those before it began.
func (k *Keeper) follow(ctx context.Context) {
	for {
		_, changed := k.cfg.Plugins.Volumes()
		k.mu.Lock()
		k.tell()
		k.mu.Unlock()
		select {
		case <-changed:
		case <-k.ctx.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// Close ends what the keeper does. Volumes stay where they are.
func (k *Keeper) Close() {
	k.stop()
	k.work.Wait()
}

// Look says that an alloc has ended, so that something may belong to none. It does not block.
func (k *Keeper) Look() { k.ring() }

// ring has Run look for what belongs to no alloc.
func (k *Keeper) ring() {
	select {
	case k.look <- struct{}{}:
	default:
	}
}

// tell wakes those who wait for a change. The lock is held.
func (k *Keeper) tell() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// maxSocket is how long the path of a socket may be.
const maxSocket = 100

// socketsOf returns the directory of the drivers' sockets. It is below dir, unless the paths of
// the sockets would be too long there.
func socketsOf(dir string) string {
	out := filepath.Join(dir, "plugins")
	if len(out)+len("/0123456789abcdef/"+socketName) <= maxSocket {
		return out
	}
	return filepath.Join(os.TempDir(), "drover-csi-"+digest(dir)[:12])
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

var (
	plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,47}$`)
	odd       = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
)

// fileName returns a name for a file or an instance. It is unique for s, and people recognize
// s in it.
func fileName(s string) string {
	head := strings.TrimLeft(odd.ReplaceAllString(s, "_"), "._-")
	return cmp.Or(head[:min(len(head), 32)], "x") + "-" + digest(s)[:12]
}

// lanes serialize the work on each volume.
type lanes struct {
	mu   sync.Mutex
	busy map[string]chan struct{}
}

// enter waits until nobody works on a volume. The caller calls leave when it is done.
func (l *lanes) enter(ctx context.Context, key string) (leave func(), err error) {
	for {
		l.mu.Lock()
		before, taken := l.busy[key]
		if !taken {
			mine := make(chan struct{})
			l.busy[key] = mine
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.busy, key)
				close(mine)
			}, nil
		}
		l.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, errdefs.Unavailablef("other work on the volume has not ended: %w", ctx.Err())
		}
	}
}
