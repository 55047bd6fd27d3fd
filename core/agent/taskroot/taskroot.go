// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package taskroot makes the folder of a task a root file system: it puts the machine's
// programs and libraries there, and the alloc's shared folder at /alloc. Drivers that were
// built for Nomad and whose isolation is "chroot" expect that from their host. It owns the
// mounts below a task's folder, except the folder of secrets. It does not change the root
// of any process: the driver does. core/agent imports it.
//
// What comes from the machine is mounted and not linked or copied: that takes
// milliseconds, needs no room, and no task and no removal of the folder can change the
// machine's files through it, because the mounts are read-only.
package taskroot

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// names of the folders that every task has.
const (
	sharedDir  = "alloc"
	secretsDir = "secrets"
)

// Seen is a path of the machine and the path at which tasks see it.
type Seen struct{ Source, Target string }

// system are the parts of the machine that tasks see by default. Missing ones are left out.
var system = []string{"/bin", "/etc", "/lib", "/lib32", "/lib64", "/run/resolvconf", "/run/systemd/resolve", "/sbin", "/usr"}

// Roots makes root file systems for tasks.
type Roots struct {
	seen []Seen // by the depth of their targets, so that a folder is there before what is in it
	// unable says why no root can be made; "" if it can. Only the first call tries it: most
	// nodes have no driver that needs a root.
	unable func() string
}

// New returns Roots that show the paths of chroot (path on the machine = path in the task;
// nil means the machine's programs, libraries and settings). hidden are directories of the
// agent, which no task may see.
func New(chroot map[string]string, hidden ...string) *Roots {
	r := &Roots{unable: sync.OnceValue(unable)}
	if len(chroot) == 0 {
		for _, dir := range system {
			r.seen = append(r.seen, Seen{Source: dir, Target: dir})
		}
	}
	for from, to := range chroot {
		s := Seen{Source: filepath.Clean(from), Target: filepath.Clean("/" + cmp.Or(to, from))}
		if why := s.refusal(hidden); why != "" {
			r.unable = func() string { return why }
		}
		r.seen = append(r.seen, s)
	}
	slices.SortFunc(r.seen, func(a, b Seen) int {
		return cmp.Or(cmp.Compare(strings.Count(a.Target, "/"), strings.Count(b.Target, "/")), cmp.Compare(a.Target, b.Target))
	})
	return r
}

// refusal says why a path cannot be shown; "" if it can.
func (s Seen) refusal(hidden []string) string {
	if !filepath.IsAbs(s.Source) {
		return fmt.Sprintf("client.chroot_env: %q is not an absolute path of the machine; write it with its leading slash", s.Source)
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(s.Target, "/"), "/")
	if slices.Contains([]string{"", sharedDir, secretsDir, "local", "private", "tmp"}, first) {
		return fmt.Sprintf("client.chroot_env: %s is to be seen at %s, which belongs to the task; choose another path", s.Source, s.Target)
	}
	source := real(s.Source)
	for _, dir := range hidden {
		if dir = real(dir); within(dir, source) || within(source, dir) {
			return fmt.Sprintf("client.chroot_env: %s would show the agent's own directory %s to tasks; name the directories beside it", s.Source, dir)
		}
	}
	return ""
}

// real returns an absolute path without links, as far as it exists.
func real(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if out, err := filepath.EvalSymlinks(path); err == nil {
		return out
	}
	return path
}

// within reports whether a path is a directory or is in it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// Unable says why Build would fail for every task, and what to do; "" if it would not.
func (r *Roots) Unable() string { return r.unable() }
