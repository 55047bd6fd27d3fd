// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package storage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/volume"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Mount is what an alloc has of a volume. It is stored with the alloc before anything is
// mounted, and has no secrets.
type Mount struct {
	AllocID    string
	Request    string // name of the volume in the group
	Volume     string // id of the volume, for people
	Plugin     string
	ExternalID string // id of the volume in the storage system
	Staging    string // path at which it is prepared for all allocs of the node
	Target     string // path at which the alloc has it
	ReadOnly   bool   `json:",omitempty"`
	Block      bool   `json:",omitempty"` // it is a block device
	Alone      bool   `json:",omitempty"` // it writes, and nobody else may
}

func (m *Mount) key() string { return m.Plugin + "\x00" + m.ExternalID }

func (m *Mount) grantKey() string { return m.AllocID + "\x00" + m.Request }

// Claim asks the servers for a volume until they grant it or ctx ends. waits gets the reasons
// why they do not.
func (k *Keeper) Claim(ctx context.Context, allocID, request string, waits func(string)) (*Mount, error) {
	for pause := k.cfg.Limits.Retry; ; pause = min(2*pause, retryMax) {
		m, err := k.claim(ctx, allocID, request)
		switch {
		case err == nil:
			return m, nil
		case errdefs.IsUnimplemented(err):
			return nil, errdefs.FailedPreconditionf("the servers grant no volumes of type csi; upgrade them: %w", err)
		case !errdefs.IsUnavailable(err) && !errdefs.IsDeadlineExceeded(err) || ctx.Err() != nil:
			return nil, err
		}
		waits(err.Error())
		if sleep.For(ctx, pause) != nil {
			return nil, err
		}
	}
}

func (k *Keeper) claim(ctx context.Context, allocID, request string) (*Mount, error) {
	g, err := k.cfg.Claim(ctx, rpc.VolumeQuery{AllocID: allocID, Volume: request})
	if err != nil {
		return nil, fmt.Errorf("volume %q: %w", request, err)
	}
	if g.Plugin == "" || g.ExternalID == "" {
		return nil, errdefs.Internalf("volume %q: the servers granted it without its plugin or its id in the storage system", request)
	}
	base := k.mounts(g.Plugin)
	m := &Mount{
		AllocID: allocID, Request: request, Volume: g.ID, Plugin: g.Plugin, ExternalID: g.ExternalID,
		Staging: filepath.Join(base, "staging", fileName(g.ExternalID)), Target: filepath.Join(base, "per-alloc", allocID, fileName(request)),
		ReadOnly: g.ReadOnly, Block: g.Access.Attachment == volume.AttachmentBlockDevice,
	}
	mode := string(g.Access.Mode)
	m.Alone = !g.ReadOnly && mode != model.AccessSingleNodeMultiWriter && mode != model.AccessMultiNodeMultiWriter
	k.mu.Lock()
	defer k.mu.Unlock()
	k.grants[m.grantKey()] = &g
	return m, nil
}

// granted returns the grant of a volume. After a restart of the agent the servers are asked
// again.
func (k *Keeper) granted(ctx context.Context, m *Mount) (*rpc.VolumeGrant, error) {
	k.mu.Lock()
	g := k.grants[m.grantKey()]
	k.mu.Unlock()
	if g != nil {
		return g, nil
	}
	again, err := k.claim(ctx, m.AllocID, m.Request)
	if err != nil {
		return nil, err
	}
	if again.ExternalID != m.ExternalID || again.Plugin != m.Plugin {
		return nil, errdefs.InvalidArgumentf("volume %q of storage plugin %q is another than the one that the alloc has; stop the alloc", m.Volume, m.Plugin)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.grants[m.grantKey()], nil
}

// Keep records that an alloc has a volume, or may have it. While it does, the volume is not
// unstaged when another alloc ends, and the sweep does not take it back.
func (k *Keeper) Keep(m *Mount) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.users[m.key()] == nil {
		k.users[m.key()] = map[string]*Mount{}
	}
	k.users[m.key()][m.Target] = m
}

// drop reverses Keep, and reports whether no alloc has the volume any more.
func (k *Keeper) drop(m *Mount) (last bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.users[m.key()], m.Target)
	if len(k.users[m.key()]) > 0 {
		return false
	}
	delete(k.users, m.key())
	return true
}

// kept reports whether an alloc has a volume at a path, and whether any alloc has it at all.
func (k *Keeper) kept(key, target string) (there, any bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.users[key][target] != nil, len(k.users[key]) > 0
}

// Stage prepares a volume for the allocs of the node. It tries again while the plugin is away,
// as all calls here do, until ctx ends.
func (k *Keeper) Stage(ctx context.Context, m *Mount) error {
	return k.during(ctx, m, func(ctx context.Context) error { return k.stage(ctx, m) })
}

func (k *Keeper) stage(ctx context.Context, m *Mount) error {
	g, err := k.granted(ctx, m)
	if err != nil {
		return err
	}
	k.Keep(m)
	if err := makeParent(m.Staging); err != nil {
		return err
	}
	err = k.node(ctx, m.Plugin, func(ctx context.Context, b volume.Backend, f *volume.Fingerprint) error {
		if !f.Can(volume.CanStage) {
			return nil
		}
		return b.Stage(ctx, volume.StageRequest{
			ID: m.ExternalID, StagingPath: m.Staging, Access: g.Access, Context: g.Context, PublishContext: g.PublishContext, Secrets: volume.Secrets(g.Secrets),
		})
	})
	k.setStaged(m.key(), err == nil)
	return err
}

// setStaged notes whether a volume was staged by this process, and so since the machine was
// started.
func (k *Keeper) setStaged(key string, yes bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.staged, key)
	if yes {
		k.staged[key] = true
	}
}

func (k *Keeper) isStaged(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.staged[key]
}

// Publish brings a volume to the path of the alloc. It is staged again unless this process has
// staged it, since before a start of a task the machine may have been restarted.
func (k *Keeper) Publish(ctx context.Context, m *Mount) error {
	k.Keep(m)
	if there, err := mounted(m.Target); err == nil && there {
		return nil
	}
	return k.during(ctx, m, func(ctx context.Context) error {
		if k.isStaged(m.key()) {
			err := k.publish(ctx, m)
			if err != nil && !errdefs.IsUnavailable(err) {
				k.setStaged(m.key(), false) // it may not be what it was
			}
			if errdefs.ReasonOf(err) != volume.ReasonNotStaged {
				return err
			}
		}
		if err := k.stage(ctx, m); err != nil {
			return err
		}
		return k.publish(ctx, m)
	})
}

func (k *Keeper) publish(ctx context.Context, m *Mount) error {
	g, err := k.granted(ctx, m)
	if err != nil {
		return err
	}
	if err := makeParent(m.Target); err != nil {
		return err
	}
	return k.node(ctx, m.Plugin, func(ctx context.Context, b volume.Backend, f *volume.Fingerprint) error {
		if err := k.isFree(ctx, b, m); err != nil {
			return err
		}
		return b.Publish(ctx, volume.PublishRequest{
			ID: m.ExternalID, StagingPath: stagingFor(f, m.Staging), TargetPath: m.Target, Access: g.Access, ReadOnly: m.ReadOnly,
			Context: g.Context, PublishContext: g.PublishContext, Secrets: volume.Secrets(g.Secrets),
		})
	})
}

// isFree returns Unavailable while a volume that allows one writer still has another writer on
// this node. The servers may not know that writer any more: if they could not reach the node,
// they have given up its allocs, which may still run here.
func (k *Keeper) isFree(ctx context.Context, b volume.Backend, m *Mount) error {
	if !m.Alone {
		return nil
	}
	all, err := b.Published(ctx)
	if err != nil {
		return err
	}
	for _, p := range all {
		for _, target := range p.TargetPaths {
			if p.ID == m.ExternalID && target != m.Target && !k.reads(m.key(), target) {
				k.ring() // it may belong to no alloc
				return errdefs.Unavailablef("it has one writer, and is still published at %s", target)
			}
		}
	}
	return nil
}

// reads reports whether an alloc has a volume at a path and is not its only writer.
func (k *Keeper) reads(key, target string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	other := k.users[key][target]
	return other != nil && !other.Alone
}

func stagingFor(f *volume.Fingerprint, path string) string {
	if !f.Can(volume.CanStage) {
		return ""
	}
	return path
}

// Unpublish reverses Publish.
func (k *Keeper) Unpublish(ctx context.Context, m *Mount) error {
	return k.during(ctx, m, func(ctx context.Context) error {
		err := k.node(ctx, m.Plugin, func(ctx context.Context, b volume.Backend, _ *volume.Fingerprint) error {
			return b.Unpublish(ctx, m.ExternalID, m.Target)
		})
		if err = k.withoutPlugin(part{id: m.Plugin}.name(), m.Target, err); err == nil {
			_ = os.Remove(filepath.Dir(m.Target)) // it stays while the alloc has other volumes there
		}
		return err
	})
}

// Unstage records that the alloc has the volume no longer, and reverses Stage if no other alloc
// of the node has it.
func (k *Keeper) Unstage(ctx context.Context, m *Mount) error {
	err := k.during(ctx, m, func(ctx context.Context) error {
		if !k.drop(m) {
			return nil
		}
		return k.withoutPlugin(part{id: m.Plugin}.name(), m.Staging, k.unstage(ctx, m.Plugin, m.ExternalID))
	})
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.grants, m.grantKey())
	return nil
}

// unstage unstages a volume that is published nowhere on the node. The caller has its lane.
func (k *Keeper) unstage(ctx context.Context, plugin, id string) error {
	k.setStaged(plugin+"\x00"+id, false)
	return k.node(ctx, plugin, func(ctx context.Context, b volume.Backend, f *volume.Fingerprint) error {
		all, err := b.Published(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(p volume.Publication) bool { return p.ID == id })
		if i < 0 || all[i].StagingPath == "" || len(all[i].TargetPaths) > 0 || !f.Can(volume.CanStage) {
			return nil
		}
		if err := b.Unstage(ctx, id, all[i].StagingPath); err != nil {
			return err
		}
		_ = os.Remove(all[i].StagingPath) // plugins may leave the empty directory
		return nil
	})
}

// during calls do while nothing else works on the volume. It repeats the call while the
// volume's plugin is away or busy, until ctx ends.
func (k *Keeper) during(ctx context.Context, m *Mount, do func(context.Context) error) error {
	for pause := k.cfg.Limits.Retry; ; pause = min(2*pause, retryMax) {
		err := k.alone(ctx, m.key(), do)
		if err == nil {
			return nil
		}
		err = fmt.Errorf("volume %q: %w", m.Volume, err)
		passes := errdefs.IsUnavailable(err) || errdefs.IsAborted(err)
		if !passes || ctx.Err() != nil || sleep.For(ctx, pause) != nil {
			return err
		}
	}
}

func (k *Keeper) alone(ctx context.Context, key string, do func(context.Context) error) error {
	leave, err := k.lanes.enter(ctx, key)
	if err != nil {
		return err
	}
	defer leave()
	return do(ctx)
}

// node calls the node's part of a storage plugin.
func (k *Keeper) node(ctx context.Context, plugin string, do func(context.Context, volume.Backend, *volume.Fingerprint) error) error {
	return k.call(ctx, plugin, false, do)
}

// call calls a part of a storage plugin with what it can do now.
func (k *Keeper) call(ctx context.Context, plugin string, controller bool, do func(context.Context, volume.Backend, *volume.Fingerprint) error) error {
	name, err := k.instance(plugin, controller)
	if err != nil {
		return err
	}
	prints, _ := k.cfg.Plugins.Volumes()
	p := printOf(prints, name)
	switch {
	case p == nil:
		return errdefs.Unavailablef("storage plugin %q is being started", plugin)
	case p.Problem != "":
		return errdefs.Unavailablef("storage plugin %q cannot be used at the moment: %s", plugin, p.Problem)
	}
	return k.cfg.Plugins.WithVolume(ctx, name, func(ctx context.Context, b volume.Backend) error { return do(ctx, b, &p.Fingerprint) })
}

func makeParent(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o711); err != nil {
		return fmt.Errorf("make the directory for a volume: %w", err)
	}
	return nil
}
