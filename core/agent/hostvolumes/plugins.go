// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package hostvolumes

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/drover-project/drover/core/agent/quota"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// plugin makes volumes. Its calls may be repeated: creating a volume that is there, or
// removing one that is not, succeeds.
type plugin interface {
	version() string
	create(ctx context.Context, v *model.HostVolume) (Made, error)
	remove(ctx context.Context, v *model.HostVolume, path string) error
}

// stamp says whether a file is the one that was looked at.
type stamp struct {
	size int64
	at   time.Time
}

// maxPlugins is how many executables of the directory are plugins.
const maxPlugins = 100

// plugin returns a plugin by its name. One that was installed since the last look is found.
func (k *Keeper) plugin(ctx context.Context, name string) (plugin, error) {
	for look := range 2 {
		k.mu.Lock()
		p := k.plugins[name]
		k.mu.Unlock()
		if p != nil {
			return p, nil
		}
		if look == 0 {
			k.findPlugins(ctx)
		}
	}
	return nil, errdefs.FailedPreconditionf("node %s has no plugin %q for host volumes, or it does not answer; it has: %s. Plugins are executables in %s", k.cfg.NodeID, name, k.names(), k.cfg.PluginDir)
}

// findPlugins asks the executables that are new or have changed, and forgets those that
// are gone.
func (k *Keeper) findPlugins(ctx context.Context) {
	files := k.executables()
	k.mu.Lock()
	known, works := maps.Clone(k.seen), maps.Clone(k.plugins)
	k.mu.Unlock()
	for name, at := range files {
		had, ok := known[name]
		same := ok && had == at
		if same && works[name] != nil {
			continue
		}
		p := &executable{name: name, cfg: &k.cfg}
		err := p.fingerprint(ctx)
		if err != nil && ctx.Err() == nil && !same { // it is asked again at each look: it may have been busy
			k.cfg.Logger.Warn("an executable is not used as plugin for host volumes", "plugin", name, "error", err)
		}
		k.setPlugin(name, p, at, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for name := range known {
		if _, ok := files[name]; !ok {
			delete(k.seen, name)
			delete(k.plugins, name)
			k.tell()
		}
	}
}

func (k *Keeper) setPlugin(name string, p *executable, at stamp, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen[name] = at
	was := k.plugins[name]
	if delete(k.plugins, name); err == nil {
		k.plugins[name] = p
	}
	if was != nil || err == nil {
		k.tell()
	}
}

// executables returns the executables in the directory of plugins. It leaves out those with
// names that a specification cannot have, and with the name of the built-in plugin.
func (k *Keeper) executables() map[string]stamp {
	out := map[string]stamp{}
	entries, err := os.ReadDir(k.cfg.PluginDir)
	if err != nil && !os.IsNotExist(err) {
		k.cfg.Logger.Warn("the directory of plugins for host volumes cannot be read", "dir", k.cfg.PluginDir, "error", err)
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(k.cfg.PluginDir, e.Name()))
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			continue
		}
		if e.Name() == mkdirName || !model.IsHostVolumePlugin(e.Name()) || len(out) == maxPlugins {
			k.cfg.Logger.Debug("an executable is not used as plugin for host volumes: its name is taken, or has other characters than letters, digits, '.', '_' and '-', or there are too many", "plugin", e.Name())
			continue
		}
		out[e.Name()] = stamp{info.Size(), info.ModTime()}
	}
	return out
}

// mkdirName is the name of the built-in plugin.
const mkdirName = "mkdir"

// mkdir makes directories. Their size is limited to the capacity of the volume where the file
// system limits directories.
type mkdir struct {
	dir    string
	limits quota.Disks
}

func (mkdir) version() string { return "0.0.1" }

func (m mkdir) create(ctx context.Context, v *model.HostVolume) (Made, error) {
	mode, uid, gid, err := mkdirParameters(v.Parameters)
	if err != nil {
		return Made{}, err
	}
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return Made{}, errdefs.Internalf("make the directory of host volumes: %w", err)
	}
	path := filepath.Join(m.dir, v.ID)
	if err := os.Mkdir(path, mode); err != nil && !os.IsExist(err) {
		return Made{}, errdefs.Internalf("make the volume: %w", err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		return Made{}, &unusable{errdefs.Internalf("make the volume: %w", err), path}
	}
	if uid >= 0 || gid >= 0 {
		if err := os.Chown(path, uid, gid); err != nil {
			return Made{}, &unusable{errdefs.FailedPreconditionf("give the volume to uid %d and gid %d: %w", uid, gid, err), path}
		}
	}
	bytes, err := m.limit(ctx, path, v)
	if err != nil {
		return Made{}, &unusable{err, path}
	}
	return Made{HostPath: path, CapacityBytes: bytes}, nil
}

// limit limits a volume to the largest capacity that was asked for, and returns the limit; 0
// means that there is none.
func (m mkdir) limit(ctx context.Context, path string, v *model.HostVolume) (int64, error) {
	if v.RequestedCapacityMaxBytes == 0 {
		return 0, nil
	}
	err := m.limits.Limit(ctx, path, v.RequestedCapacityMaxBytes)
	switch u, limited := quota.Measure(path); {
	case errdefs.IsUnimplemented(err), err == nil && !limited:
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("limit the volume to %d bytes: %w", v.RequestedCapacityMaxBytes, err)
	default:
		return u.Limit, nil
	}
}

// mkdirParameters reads the parameters: mode, uid and gid. An owner of -1 is not changed.
func mkdirParameters(params map[string]string) (mode fs.FileMode, uid, gid int, err error) {
	mode, uid, gid = 0o700, -1, -1
	number := func(key, value string, base, bits int) (n uint64) {
		if err == nil {
			if n, err = strconv.ParseUint(value, base, bits); err != nil {
				err = errdefs.InvalidArgumentf("parameter %s %.40q of plugin %q must be a number (mode: octal, up to \"0777\")", key, value, mkdirName)
			}
		}
		return n
	}
	for key, value := range params {
		switch key {
		case "mode":
			mode = fs.FileMode(number(key, value, 8, 9))
		case "uid":
			uid = int(number(key, value, 10, 31))
		case "gid":
			gid = int(number(key, value, 10, 31))
		default:
			return 0, 0, 0, errdefs.InvalidArgumentf("plugin %q has no parameter %.80q; it has mode, uid and gid", mkdirName, key)
		}
	}
	return mode, uid, gid, err
}

func (m mkdir) remove(_ context.Context, v *model.HostVolume, path string) error {
	if filepath.Base(path) != v.ID { // it may be from before host_volumes_dir was changed
		path = filepath.Join(m.dir, v.ID)
	}
	m.limits.Release(path)
	if err := os.RemoveAll(path); err != nil {
		return errdefs.Internalf("remove the volume: %w", err)
	}
	return nil
}
