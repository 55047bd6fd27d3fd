// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package hostvolumes keeps the dynamic host volumes of a node: it makes and removes them by
// plugins, which are the built-in mkdir and the executables of a directory, remembers them
// over restarts of the agent, and says which of them the node offers. Whether a volume is in
// use is known by servers.
package hostvolumes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Store is the node's durable state.
type Store interface {
	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, value []byte) error
}

// storeKey is the key of all records. They are written as a whole, so they agree.
const storeKey = "hostvolumes"

// maxVolumes is how many volumes a node keeps.
const maxVolumes = 1000

// Config is what a Keeper needs.
type Config struct {
	Dir       string // where plugins make volumes
	PluginDir string // executables that are plugins
	NodeID    string
	NodePool  string
	// Static reports whether the agent's configuration has a host volume with the name.
	Static func(name string) bool
	Store  Store
	Logger hclog.Logger
	Limits Limits
}

// Limits are time limits of plugins, and pauses of the Keeper. Zero means the default.
type Limits struct {
	Fingerprint time.Duration // limit of a fingerprint; default 5 s
	Change      time.Duration // limit of a create or delete; default 60 s
	Look        time.Duration // pause between two looks at the directory of plugins; default 30 s
	Again       time.Duration // pause before a volume that could not be restored is tried again; default 10 s
}

func (l *Limits) setDefaults() {
	l.Fingerprint = cmp.Or(l.Fingerprint, 5*time.Second)
	l.Change = cmp.Or(l.Change, time.Minute)
	l.Look = cmp.Or(l.Look, 30*time.Second)
	l.Again = cmp.Or(l.Again, 10*time.Second)
}

// Phases of a record.
const (
	phaseCreating = "creating" // its plugin may have made it in part
	phaseMade     = "made"
	phaseDeleting = "deleting" // its plugin may have removed it in part
)

// record is what the node remembers of a volume.
type record struct {
	Volume *model.HostVolume // as servers asked for it
	Phase  string
	Path   string
	Bytes  int64
}

// Made is what a plugin says of a volume that it has made.
type Made struct {
	HostPath      string
	CapacityBytes int64
}

// Keeper keeps the volumes of one node.
type Keeper struct {
	cfg   Config
	slots chan struct{} // plugins that may run at the same time

	mu      sync.Mutex
	records map[string]*record // by id; a record is never changed
	offered map[string]bool    // ids of made volumes that are there
	busy    map[string]bool    // ids that a request is about
	plugins map[string]plugin
	seen    map[string]stamp // executables by name, as they were when they were asked
	changed chan struct{}
}

// maxRuns is how many plugins run at the same time.
const maxRuns = 8

// Open reads the records, offers the volumes that need no plugin, and returns the keeper.
func Open(ctx context.Context, cfg Config) (*Keeper, error) {
	cfg.Limits.setDefaults()
	k := &Keeper{
		cfg: cfg, slots: make(chan struct{}, maxRuns), records: map[string]*record{}, offered: map[string]bool{}, busy: map[string]bool{},
		plugins: map[string]plugin{mkdirName: mkdir{dir: cfg.Dir}}, seen: map[string]stamp{}, changed: make(chan struct{}),
	}
	body, err := cfg.Store.Get(ctx, storeKey)
	switch {
	case errdefs.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("read the node's host volumes: %w", err)
	default:
		if err := json.Unmarshal(body, &k.records); err != nil {
			return nil, errdefs.Internalf("the record of the node's host volumes is damaged: %w", err)
		}
	}
	for id, r := range k.records {
		if r == nil || r.Volume == nil {
			delete(k.records, id)
			continue
		}
		if r.Phase == phaseMade && (r.Volume.Registered || r.Volume.PluginID == mkdirName) {
			k.offer(r)
		}
	}
	return k, nil
}

// offer offers a made volume if its directory is there. The lock is held, or not needed yet.
func (k *Keeper) offer(r *record) {
	if err := isDir(r.Path); err != nil {
		k.cfg.Logger.Error("a host volume is not there, so nothing is placed on it; mount or restore its directory", "volume", r.Volume.Name, "id", r.Volume.ID, "error", err)
		return
	}
	k.offered[r.Volume.ID] = true
}

// Run finds plugins and restores volumes until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	look, again := time.NewTicker(k.cfg.Limits.Look), time.NewTicker(k.cfg.Limits.Again)
	defer look.Stop()
	defer again.Stop()
	k.findPlugins(ctx)
	k.restoreAll(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			k.findPlugins(ctx)
		case <-again.C:
			k.restoreAll(ctx)
		}
	}
}

// restoreAll makes volumes again that are not offered, as after a restart of the machine.
func (k *Keeper) restoreAll(ctx context.Context) {
	var wg sync.WaitGroup
	k.mu.Lock()
	for id, r := range k.records {
		if r.Phase != phaseDeleting && !k.offered[id] && !k.busy[id] {
			k.busy[id] = true
			wg.Go(func() { k.restore(ctx, r) })
		}
	}
	k.mu.Unlock()
	wg.Wait()
}

func (k *Keeper) restore(ctx context.Context, r *record) {
	defer k.release(r.Volume.ID)
	made, err := Made{r.Path, r.Bytes}, isDir(r.Path)
	if !r.Volume.Registered && (r.Volume.PluginID != mkdirName || r.Phase == phaseCreating) {
		made, err = k.make(ctx, r.Volume)
	}
	if err == nil {
		err = k.keep(ctx, &record{Volume: r.Volume, Phase: phaseMade, Path: made.HostPath, Bytes: made.CapacityBytes})
	}
	if err != nil && ctx.Err() == nil {
		k.cfg.Logger.Error("a host volume cannot be restored, so nothing is placed on it; it is tried again", "volume", r.Volume.Name, "id", r.Volume.ID, "plugin", r.Volume.PluginID, "error", err)
	}
}

// Offered returns the volumes that are there, by name, and a channel that is closed when
// they or the plugins change.
func (k *Keeper) Offered() (map[string]*model.HostVolumeConfig, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make(map[string]*model.HostVolumeConfig, len(k.offered))
	for id := range k.offered {
		if r := k.records[id]; r != nil && !k.cfg.Static(r.Volume.Name) {
			out[r.Volume.Name] = &model.HostVolumeConfig{Name: r.Volume.Name, Path: r.Path, ID: id}
		}
	}
	return out, k.changed
}

// Versions returns the versions of the plugins by their names.
func (k *Keeper) Versions() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make(map[string]string, len(k.plugins))
	for name, p := range k.plugins {
		out[name] = p.version()
	}
	return out
}

// take marks a volume as being changed.
func (k *Keeper) take(id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.busy[id] {
		return errdefs.Unavailablef("host volume %s is being made or removed; try again when that has ended", id)
	}
	k.busy[id] = true
	return nil
}

func (k *Keeper) release(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.busy, id)
}

// Create makes a volume, or makes it again with other capacities or parameters. A failed
// first attempt leaves no record.
func (k *Keeper) Create(ctx context.Context, v *model.HostVolume) (Made, error) {
	if err := k.check(v); err != nil {
		return Made{}, err
	}
	if err := k.take(v.ID); err != nil {
		return Made{}, err
	}
	defer k.release(v.ID)
	before, err := k.admit(v)
	if err != nil {
		return Made{}, err
	}
	if before == nil { // recorded first, so that a crash leaves nothing that no record names
		if err := k.write(ctx, v.ID, &record{Volume: v, Phase: phaseCreating}); err != nil {
			return Made{}, err
		}
	}
	made, err := k.make(ctx, v)
	if err != nil {
		if before == nil {
			err = k.undo(ctx, v, err)
		}
		return Made{}, err
	}
	return made, k.keep(ctx, &record{Volume: v, Phase: phaseMade, Path: made.HostPath, Bytes: made.CapacityBytes})
}

// undo removes the record of a volume that could not be made, and first what its plugin has
// made nevertheless. It returns cause.
func (k *Keeper) undo(ctx context.Context, v *model.HostVolume, cause error) error {
	if errdefs.IsUnavailable(cause) || errdefs.IsDeadlineExceeded(cause) {
		return cause // it may have been made: it is tried again
	}
	if made := (*unusable)(nil); errors.As(cause, &made) {
		if err := k.remove(ctx, &record{Volume: v, Path: made.path}); err != nil {
			return fmt.Errorf("%w; %w", cause, err)
		}
	}
	if err := k.write(ctx, v.ID, nil); err != nil {
		return fmt.Errorf("%w; and the volume stays recorded: %w", cause, err)
	}
	return cause
}

// Register remembers a directory that an operator has made.
func (k *Keeper) Register(ctx context.Context, v *model.HostVolume) (Made, error) {
	if err := k.check(v); err != nil {
		return Made{}, err
	}
	if err := k.take(v.ID); err != nil {
		return Made{}, err
	}
	defer k.release(v.ID)
	if _, err := k.admit(v); err != nil {
		return Made{}, err
	}
	if err := isDir(v.HostPath); err != nil {
		return Made{}, errdefs.InvalidArgumentf("host path of volume %q: %w; make the directory on node %s first", v.Name, err, k.cfg.NodeID)
	}
	made := Made{HostPath: v.HostPath, CapacityBytes: v.CapacityBytes}
	return made, k.keep(ctx, &record{Volume: v, Phase: phaseMade, Path: made.HostPath, Bytes: made.CapacityBytes})
}

// check refuses what no server sends.
func (k *Keeper) check(v *model.HostVolume) error {
	if v == nil || !model.IsVolumeID(v.ID) || v.NodeID != k.cfg.NodeID {
		return errdefs.InvalidArgumentf("a request for a host volume needs its id, and this node's id %s", k.cfg.NodeID)
	}
	return v.Validate()
}

// admit refuses a volume whose name is taken, and returns the record of one that exists.
func (k *Keeper) admit(v *model.HostVolume) (*record, error) {
	if k.cfg.Static(v.Name) {
		return nil, errdefs.Conflictf("the configuration of node %s has a host_volume %q; use another name", k.cfg.NodeID, v.Name)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, r := range k.records {
		if r.Volume.Name == v.Name && id != v.ID {
			return nil, errdefs.Conflictf("node %s has a host volume %q with id %s; use another name", k.cfg.NodeID, v.Name, id)
		}
	}
	r := k.records[v.ID]
	if r != nil && r.Volume.Registered != v.Registered {
		return nil, errdefs.Conflictf("host volume %s was created or registered, and cannot become the other", v.ID)
	}
	if r == nil && len(k.records) >= maxVolumes {
		return nil, errdefs.ResourceExhaustedf("node %s has %d host volumes, and keeps no more", k.cfg.NodeID, len(k.records))
	}
	if r != nil && r.Phase == phaseCreating {
		return nil, nil
	}
	return r, nil
}

// make has the plugin make a volume, and checks what it says.
func (k *Keeper) make(ctx context.Context, v *model.HostVolume) (Made, error) {
	p, err := k.plugin(ctx, v.PluginID)
	if err != nil {
		return Made{}, err
	}
	var made Made
	err = k.run(ctx, func(ctx context.Context) (err error) { made, err = p.create(ctx, v); return err })
	if err != nil {
		return Made{}, err
	}
	switch why := isDir(made.HostPath); {
	case made.HostPath == "" || !filepath.IsAbs(made.HostPath) || filepath.Clean(made.HostPath) != made.HostPath || made.HostPath == "/":
		return Made{}, &unusable{error: errdefs.FailedPreconditionf("plugin %q answers with the path %.200q; it must be absolute and lead to the volume's directory", v.PluginID, made.HostPath)}
	case why != nil:
		return Made{}, &unusable{errdefs.FailedPreconditionf("plugin %q says that it has made the volume, but %w", v.PluginID, why), made.HostPath}
	case made.CapacityBytes < 0, made.CapacityBytes > 0 && made.CapacityBytes < v.RequestedCapacityMinBytes:
		return Made{}, &unusable{errdefs.FailedPreconditionf("plugin %q has made a volume of %d bytes; at least %d were requested", v.PluginID, made.CapacityBytes, v.RequestedCapacityMinBytes), made.HostPath}
	}
	return made, nil
}

// run runs a plugin when fewer than maxRuns run.
func (k *Keeper) run(ctx context.Context, do func(context.Context) error) error {
	select {
	case k.slots <- struct{}{}:
		defer func() { <-k.slots }()
	case <-ctx.Done():
		return errdefs.Unavailablef("too many host volumes are made and removed at the same time on node %s: %w", k.cfg.NodeID, ctx.Err())
	}
	ctx, cancel := context.WithTimeout(ctx, k.cfg.Limits.Change)
	defer cancel()
	return do(ctx)
}

// Delete removes a volume. One that the node does not have is removed already. A registered
// one is only forgotten.
func (k *Keeper) Delete(ctx context.Context, id string) error {
	if err := k.take(id); err != nil {
		return err
	}
	defer k.release(id)
	k.mu.Lock()
	r := k.records[id]
	k.mu.Unlock()
	if r == nil {
		return nil
	}
	if !r.Volume.Registered {
		if err := k.remove(ctx, r); err != nil {
			return err
		}
	}
	return k.write(ctx, id, nil)
}

func (k *Keeper) remove(ctx context.Context, r *record) error {
	p, err := k.plugin(ctx, r.Volume.PluginID)
	if err != nil {
		return err
	}
	going := *r
	going.Phase = phaseDeleting
	if err := k.write(ctx, r.Volume.ID, &going); err != nil {
		return err
	}
	if err := k.run(ctx, func(ctx context.Context) error { return p.remove(ctx, r.Volume, r.Path) }); err != nil {
		return fmt.Errorf("plugin %q cannot delete volume %s; it is offered no more until it is deleted or created again: %w", r.Volume.PluginID, r.Volume.ID, err)
	}
	return nil
}

// keep stores a made volume and offers it.
func (k *Keeper) keep(ctx context.Context, r *record) error { return k.write(ctx, r.Volume.ID, r) }

// write replaces a record, or removes it if r is nil. What is offered follows from it.
func (k *Keeper) write(ctx context.Context, id string, r *record) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := maps.Clone(k.records)
	if next[id] = r; r == nil {
		delete(next, id)
	}
	body, err := json.Marshal(next)
	if err != nil {
		return errdefs.Internalf("encode the node's host volumes: %w", err)
	}
	if err := k.cfg.Store.Put(ctx, storeKey, body); err != nil {
		return fmt.Errorf("store the node's host volumes: %w", err)
	}
	k.records = next
	delete(k.offered, id)
	if r != nil && r.Phase == phaseMade {
		k.offered[id] = true
	}
	k.tell()
	return nil
}

// tell wakes those who wait for a change. The lock is held.
func (k *Keeper) tell() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// isDir returns an error if a path is no directory.
func isDir(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("the directory cannot be used: %w", err)
	case !info.IsDir():
		return errdefs.InvalidArgumentf("%s is not a directory", path)
	}
	return nil
}

// names returns the names of the plugins for errors.
func (k *Keeper) names() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(k.plugins)), ", ")
}
