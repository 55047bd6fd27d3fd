// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package storage

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-project/drover/core/pluginhost/volume"
	"github.com/drover-project/drover/sdk/errdefs"
)

// sweep takes back volumes that belong to no alloc: the alloc has ended without its volumes
// being taken back, or the agent has lost its state. What a plugin has at paths that are not
// the node's stays.
func (k *Keeper) sweep(ctx context.Context) {
	for _, plugin := range k.ready() {
		if err := k.sweepPlugin(ctx, plugin); err != nil && ctx.Err() == nil && !errdefs.IsUnavailable(err) && !errdefs.IsNotFound(err) {
			k.cfg.Logger.Warn("volumes that belong to no alloc cannot be taken back yet; it is tried again", "plugin", plugin, "error", err)
		}
	}
	k.sweepGone()
}

// ready returns the storage plugins of the node that may have volumes here. Plugins that are
// no drivers are asked only if something is at their paths, since asking starts them.
func (k *Keeper) ready() (out []string) {
	prints, _ := k.cfg.Plugins.Volumes()
	k.mu.Lock()
	defer k.mu.Unlock()
	for p, s := range k.slots {
		if !p.controller && len(s.drivers) > 0 {
			out = append(out, p.id)
		}
	}
	for i := range prints {
		if p := &prints[i]; !isInstance(p) && p.Node != nil && isFilled(k.mounts(p.Name)) {
			out = append(out, p.Name)
		}
	}
	return out
}

// isFilled reports whether a plugin may have something below the directory of its volumes.
func isFilled(dir string) bool {
	for _, part := range []string{"staging", "per-alloc"} {
		if entries, err := os.ReadDir(filepath.Join(dir, part)); err == nil && len(entries) > 0 {
			return true
		}
	}
	return false
}

func (k *Keeper) sweepPlugin(ctx context.Context, plugin string) error {
	var all []volume.Publication
	ask, cancel := context.WithTimeout(ctx, releaseLimit)
	defer cancel()
	err := k.node(ask, plugin, func(ctx context.Context, b volume.Backend, _ *volume.Fingerprint) (err error) {
		all, err = b.Published(ctx)
		return err
	})
	if err != nil {
		return err
	}
	for _, p := range all {
		if !k.stray(plugin, p) {
			continue
		}
		_, err := k.release(ctx, plugin, p.ID)
		if err != nil {
			return err
		}
	}
	return nil
}

// stray reports whether a volume is published at, or staged for, a path of this node that no
// alloc uses.
func (k *Keeper) stray(plugin string, p volume.Publication) bool {
	for _, target := range p.TargetPaths {
		if id, ours := k.allocOf(plugin, target); ours && !k.cfg.Uses(id) {
			return true
		}
	}
	_, used := k.kept(plugin+"\x00"+p.ID, "")
	return len(p.TargetPaths) == 0 && !used && k.isOurs(plugin, p.StagingPath)
}

// allocOf returns the alloc to which a path belongs; ours is false for a path that is not the
// node's.
func (k *Keeper) allocOf(plugin, target string) (allocID string, ours bool) {
	rest, ours := strings.CutPrefix(target, filepath.Join(k.mounts(plugin), "per-alloc")+"/")
	allocID, _, _ = strings.Cut(rest, "/")
	return allocID, ours && allocID != ""
}

func (k *Keeper) isOurs(plugin, path string) bool {
	return strings.HasPrefix(path, k.mounts(plugin)+"/")
}

// releaseLimit is how long a release may keep others from a volume whose plugin hangs.
const releaseLimit = time.Minute

// release takes back all that belongs to no alloc of a volume, and returns the alloc that
// uses it; "" if none does.
func (k *Keeper) release(ctx context.Context, plugin, id string) (user string, err error) {
	ctx, cancel := context.WithTimeout(ctx, releaseLimit)
	defer cancel()
	err = k.alone(ctx, plugin+"\x00"+id, func(ctx context.Context) error {
		user, err = k.unpublishAll(ctx, plugin, id)
		if err != nil || user != "" {
			return err
		}
		if _, used := k.kept(plugin+"\x00"+id, ""); used {
			user = "that is being prepared"
			return nil
		}
		return k.unstage(ctx, plugin, id)
	})
	return user, err
}

func (k *Keeper) unpublishAll(ctx context.Context, plugin, id string) (user string, err error) {
	err = k.node(ctx, plugin, func(ctx context.Context, b volume.Backend, _ *volume.Fingerprint) error {
		all, err := b.Published(ctx)
		if err != nil {
			return err
		}
		for _, p := range all {
			for _, target := range p.TargetPaths {
				alloc, ours := k.allocOf(plugin, target)
				switch {
				case p.ID != id:
				case !ours:
					user = "of somebody else at " + target
				case k.cfg.Uses(alloc):
					user = alloc
				default:
					k.cfg.Logger.Warn("a volume is published for an alloc that does not use it any more; it is taken back", "plugin", plugin, "volume", id, "path", target)
					if err := b.Unpublish(ctx, id, target); err != nil {
						return err
					}
					_ = os.Remove(filepath.Dir(target)) // it stays while something else is in it
				}
			}
		}
		return nil
	})
	return user, err
}
