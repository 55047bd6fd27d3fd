// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/pluginhost/confine"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

// Granted are the rights of one process. They do not change while the process runs.
type Granted struct {
	confine.Rights
	confine.Identity
	Folder string // its state folder, which is its working directory
	// Lacking lists the restrictions that the machine does not enforce, and why.
	Lacking []string `json:",omitempty"`
}

// profileOf returns the profile for the kinds that a plugin serves: the kind with the
// widest profile decides.
func profileOf(info plugin.Info) string {
	profile := confine.ProfileStats
	for _, k := range info.Kinds {
		switch strings.TrimPrefix(k.Name, "nomad-") {
		case "stats":
		case "registry":
			if profile == confine.ProfileStats || profile == confine.ProfileDevice {
				profile = confine.ProfileRegistry
			}
		case "device":
			if profile == confine.ProfileStats {
				profile = confine.ProfileDevice
			}
		case "network":
			profile = confine.ProfileNetwork
		case "volume":
			profile = confine.ProfileVolume
		default:
			return confine.ProfileDriver
		}
	}
	return profile
}

// expected returns the profile with which a plugin is launched: the profile in the
// operator's configuration, the profile of its previous process, or the profile that the
// prefix of its file's name implies. For an unknown file it is a narrow profile, in which
// the plugin can only answer Info. asked reports whether the operator has set it.
func (l *Launcher) expected(ctx context.Context, f File) (profile string, known, asked bool) {
	if p := l.cfg.Access[f.Block()].Profile; p != "" {
		return p, true, true
	}
	if p := l.remembered(ctx, f.Block()); p != "" {
		return p, true, false
	}
	for _, p := range []string{confine.ProfileDriver, confine.ProfileDevice, confine.ProfileNetwork, confine.ProfileVolume, confine.ProfileRegistry, confine.ProfileStats} {
		if strings.HasPrefix(f.Name, p+"-") {
			return p, false, false
		}
	}
	return confine.ProfileStats, false, false
}

// grant returns the rights of a plugin with a profile on this machine.
func (l *Launcher) grant(f File, profile string) (Granted, error) {
	rights := confine.RightsOf(confine.ProfileDriver, confine.Access{MemoryMB: -1})
	if l.cfg.Confine {
		rights = confine.RightsOf(profile, l.cfg.Access[f.Block()])
	}
	l.limiter.limit(f, &rights)
	g := Granted{Rights: rights, Folder: l.folders.of(f.Name)}
	if rights.RestrictFiles {
		g.Hidden = l.hidden
	}
	own := 0
	var err error
	if rights.OwnUser {
		if own, err = l.folders.user(f.Name); err != nil {
			return g, err
		}
	}
	if g.Identity, err = rights.Identify(own); err != nil {
		return g, fmt.Errorf("plugin %s: %w", f.Path, err)
	}
	g.Lacking = rights.Lacking()
	if !g.Changes() {
		return g, nil
	}
	for _, path := range []string{f.Binary(), l.socketDir, l.folders.root} {
		need := modePass
		if path == f.Binary() {
			need = modeRun
		}
		blocked := unreachable(path, need)
		switch {
		case blocked == "":
		case !rights.OwnUser:
			return g, errdefs.FailedPreconditionf("plugin %s: user %q cannot reach %s; change the mode of %s, or user in the plugin's block", f.Path, rights.User, path, blocked)
		default:
			g.Identity, err = (&confine.Rights{Groups: rights.Groups}).Identify(0)
			g.Lacking = append(g.Lacking, fmt.Sprintf("it runs as the agent's user: its own could not reach %s because of the mode of %s", path, blocked))
			return g, err
		}
	}
	return g, nil
}

// The permissions that other users need to pass a directory, and to run a file, which may
// be a script.
const (
	modePass fs.FileMode = 0o001
	modeRun  fs.FileMode = 0o005
)

// same reports whether a process of before has the rights that it would have now.
func (g *Granted) same(now *Granted) bool {
	if g == nil {
		return now.Profile == confine.ProfileDriver && !now.RestrictFiles && !now.RestrictSyscalls && !now.Changes() && now.AllCapabilities()
	}
	before, after := *g, *now
	before.Lacking, after.Lacking = nil, nil
	a, errA := json.Marshal(before)
	b, errB := json.Marshal(after)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// within adds the paths that a process needs: its own folders, and its file.
func (g *Granted) within(f File, socketDir string) *confine.Rights {
	r := g.Rights
	r.Read = append(slices.Clone(r.Read), f.Binary(), filepath.Dir(f.Path))
	r.Write = append(slices.Clone(r.Write), g.Folder, socketDir)
	return &r
}

func profileKey(name string) string { return "pluginhost-profile/" + filepath.Base(name) }

// remembered returns the profile of the plugin's process before; "" if there was none.
func (l *Launcher) remembered(ctx context.Context, name string) string {
	l.mu.Lock()
	profile := l.profiles[name]
	l.mu.Unlock()
	if profile != "" || l.cfg.Store == nil {
		return profile
	}
	body, err := l.cfg.Store.Get(ctx, profileKey(name))
	if err != nil {
		return ""
	}
	return string(body)
}

// remember stores the profile of a plugin for its next launch.
func (l *Launcher) remember(ctx context.Context, name, profile string) error {
	l.mu.Lock()
	same := l.profiles[name] == profile
	l.profiles[name] = profile
	l.mu.Unlock()
	if same || l.cfg.Store == nil {
		return nil
	}
	if err := l.cfg.Store.Put(ctx, profileKey(name), []byte(profile)); err != nil {
		return fmt.Errorf("store the rights of plugin %s: %w", name, err)
	}
	return nil
}
