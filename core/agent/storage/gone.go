// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// A storage plugin is gone if no task of the node is its driver, no live alloc of the node was
// its driver, and plugin_dir has no plugin of its name. Then no plugin can be asked to take
// volumes back, and an alloc that has volumes of the plugin would never end. So the node looks
// at its mounts itself. A volume that is not mounted counts as taken back. A mounted one is
// unmounted by the node once the plugin has been gone for Limits.Gone, which is longer than an
// update of the driver's job takes. If the plugin comes back, it still has records of these
// volumes, and the sweep makes it forget them.

// goneFor returns for how long a plugin is known to be gone, by the name of its node's part; ok
// is false if it is not gone.
func (k *Keeper) goneFor(name string) (long time.Duration, ok bool) {
	if k.knows(name) {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.gone, name)
		return 0, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.cfg.Now()
	since, noted := k.gone[name]
	if !noted {
		since = now
		k.gone[name] = now
	}
	return now.Sub(since), true
}

// knows reports whether the node has a plugin that serves nodes under a name, or had one of an
// alloc that lives.
func (k *Keeper) knows(name string) bool {
	k.mu.Lock()
	for p := range k.slots {
		if !p.controller && p.name() == name {
			k.mu.Unlock()
			return true
		}
	}
	k.mu.Unlock()
	prints, _ := k.cfg.Plugins.Volumes()
	return printOf(prints, name) != nil || k.reported(name) != nil
}

// withoutPlugin takes back what is at a path if the plugin is gone. Otherwise it returns err,
// which is the error of the plugin's call.
func (k *Keeper) withoutPlugin(name, path string, err error) error {
	if !errdefs.IsNotFound(err) {
		return err
	}
	long, gone := k.goneFor(name)
	if !gone {
		return err
	}
	there, look := mounted(path)
	switch {
	case look != nil:
		return errors.Join(err, look)
	case !there:
		return nil
	case long < k.cfg.Limits.Gone:
		return errdefs.NotFoundf("%w; if it does not come back, the node unmounts %s itself in %s", err, path, (k.cfg.Limits.Gone - long).Round(time.Second))
	}
	if look = unmountAll(path); look != nil {
		return errdefs.FailedPreconditionf("%w; and the node cannot unmount %s itself: %w", err, path, look)
	}
	k.cfg.Logger.Warn("the storage plugin of a volume is gone, so the node has unmounted the volume itself", "plugin", name, "path", path)
	_ = os.Remove(path) // empty, unless the plugin has put something there
	return nil
}

// releaseWithoutPlugin takes back what belongs to no alloc of a volume whose plugin is gone, and
// returns the alloc that uses it; "" if none does. The allocs that have ended are known, and
// not which of the plugin's volumes they had, so all of theirs are taken back.
func (k *Keeper) releaseWithoutPlugin(plugin, id string, err error) (user string, _ error) {
	k.mu.Lock()
	for _, m := range k.users[plugin+"\x00"+id] {
		user = m.AllocID
	}
	k.mu.Unlock()
	if user != "" {
		return user, nil
	}
	name := part{id: plugin}.name()
	return "", errors.Join(k.unpublishStrays(name, err), k.withoutPlugin(name, filepath.Join(k.mounts(plugin), "staging", fileName(id)), err))
}

// sweepGone takes back what plugins that are gone have left and no alloc has.
func (k *Keeper) sweepGone() {
	dirs, err := readDir(filepath.Join(k.cfg.Dir, "node"))
	for _, d := range dirs {
		if _, gone := k.goneFor(d.Name()); !gone || !isFilled(filepath.Join(k.cfg.Dir, "node", d.Name())) {
			continue
		}
		cause := errdefs.NotFoundf("storage plugin %q is gone", d.Name())
		err = errors.Join(err, k.unpublishStrays(d.Name(), cause), k.unstageStrays(d.Name(), cause))
	}
	if err != nil && !errdefs.IsNotFound(err) {
		k.cfg.Logger.Warn("volumes of storage plugins that are gone cannot be taken back yet; it is tried again", "error", err)
	}
}

// unpublishStrays takes back what ended allocs have of the volumes of a plugin that is gone.
func (k *Keeper) unpublishStrays(name string, cause error) error {
	dir := filepath.Join(k.cfg.Dir, "node", name, "per-alloc")
	allocs, err := readDir(dir)
	if err != nil {
		return err
	}
	var failed []error
	for _, a := range allocs {
		if k.cfg.Uses(a.Name()) {
			continue
		}
		targets, err := readDir(filepath.Join(dir, a.Name()))
		failed = append(failed, err)
		for _, t := range targets {
			failed = append(failed, k.withoutPlugin(name, filepath.Join(dir, a.Name(), t.Name()), cause))
		}
		_ = os.Remove(filepath.Join(dir, a.Name())) // it stays if something is in it
	}
	return errors.Join(failed...)
}

// unstageStrays takes back the volumes of a plugin that is gone which no alloc has.
func (k *Keeper) unstageStrays(name string, cause error) error {
	used := map[string]bool{}
	k.mu.Lock()
	for _, mounts := range k.users {
		for _, m := range mounts {
			used[m.Staging] = true
		}
	}
	k.mu.Unlock()
	dir := filepath.Join(k.cfg.Dir, "node", name, "staging")
	staged, err := readDir(dir)
	failed := []error{err}
	for _, s := range staged {
		if path := filepath.Join(dir, s.Name()); !used[path] {
			failed = append(failed, k.withoutPlugin(name, path, cause))
		}
	}
	return errors.Join(failed...)
}

func readDir(dir string) ([]fs.DirEntry, error) {
	all, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for volumes that are left: %w", err)
	}
	return all, nil
}
