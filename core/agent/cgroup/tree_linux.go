// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
)

// layout is the tree in one version of cgroups.
type layout interface {
	version() int
	// top is a directory that exists once setUp has worked.
	top() string
	// setUp makes the groups above the tasks' groups. It may be repeated.
	setUp(cores []int) error
	// setCores sets the shared cores and the reserved cores.
	setCores(share, reserve []int) error
	// reserved are the cores that groups of the tree have.
	reserved() ([]int, error)
	// make makes the group of a task, which does not exist.
	make(name string, cores []int, limits *Limits) (map[string]string, error)
	// dirs are the directories that a task has for itself, if they exist. The first one
	// carries the owner's mark.
	dirs(name string) []string
	// names are the tasks that have a group.
	names() []string
	// freeze stops the processes of a group, or continues them.
	freeze(name string, stop bool)
}

// Tree makes and removes the groups of tasks. Its methods may be called at the same
// time.
type Tree struct {
	cfg    Config
	layout layout
	lacks  error // why this machine has no tree; nil if it may
	rmdir  func(dir string) error

	mu     sync.Mutex
	told   bool             // has logged that there is no tree
	worked bool             // the tree has been set up
	held   map[string][]int // by alloc: the cores of this agent's allocs
	shared []int            // what Shared has found since the last change of held; nil: not known
}

// New returns the tree of a machine. It makes nothing yet.
func New(cfg Config) *Tree {
	if cfg.Root == "" {
		cfg.Root = Root
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	t := &Tree{cfg: cfg, rmdir: unix.Rmdir, held: map[string][]int{}}
	t.layout, t.lacks = find(cfg.Root)
	return t
}

// find returns the layout for the cgroup file systems that are mounted.
func find(root string) (layout, error) {
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		v := &v2{root: root}
		return v, v.missing()
	}
	v := &v1{root: root}
	return v, v.missing()
}

// nameOf is the name of a task's group.
func nameOf(allocID, task string) string { return allocID + "." + task }

// Make makes the group of a task. Processes that an earlier run of the task has left in
// it are killed first. It returns nil if this machine cannot have groups; that is logged
// once.
func (t *Tree) Make(ctx context.Context, task Task) (*Group, error) {
	name := nameOf(task.AllocID, task.Name)
	if strings.Contains(name, "/") {
		return nil, errdefs.InvalidArgumentf("the task %q cannot have a cgroup, since its name has a slash; name it otherwise", task.Name)
	}
	if t.lacks != nil {
		t.refuse(t.lacks)
		return nil, nil
	}
	if err := t.setUp(ctx); err != nil {
		if !t.hasWorked() && ctx.Err() == nil {
			t.refuse(err)
			return nil, nil
		}
		return nil, errdefs.Unavailablef("set up the cgroups of tasks: %w", err)
	}
	if err := t.end(ctx, name); err != nil {
		return nil, err
	}
	var dirs map[string]string
	err := t.locked(ctx, func() (err error) {
		if len(task.Cores) > 0 { // there must be room for them before they are taken
			if err := t.share(task.Cores); err != nil {
				return err
			}
		}
		if dirs, err = t.layout.make(name, task.Cores, task.Limits); err != nil {
			return err
		}
		// Where the mark cannot be set, leftovers of an agent that lost its state stay.
		_ = unix.Setxattr(t.layout.dirs(name)[0], ownerMark, []byte(t.cfg.Owner), 0)
		return t.share(nil)
	})
	if err != nil {
		return nil, errors.Join(errdefs.Unavailablef("make the cgroup of task %q: %w", task.Name, err), t.Remove(ctx, task.AllocID, task.Name))
	}
	return &Group{Version: t.layout.version(), Dirs: dirs}, nil
}

// ownerMark is the extended attribute that names the agent that made a group.
const ownerMark = "trusted.drover.agent"

// setUp makes the groups above the tasks' groups, if they do not exist.
func (t *Tree) setUp(ctx context.Context) error {
	if err := t.layout.setUp(t.cfg.Cores()); err != nil {
		return err
	}
	if err := t.locked(ctx, func() error { return t.share(nil) }); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.worked = true
	return nil
}

func (t *Tree) hasWorked() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.worked
}

func (t *Tree) refuse(why error) {
	t.mu.Lock()
	told := t.told
	t.told = true
	t.mu.Unlock()
	if !told {
		t.cfg.Logger.Warn("this machine cannot have cgroups for tasks of drivers that want them from the agent; such tasks start without", "error", why)
	}
}

// Remove kills the processes in the group of a task and removes the group. A group that
// does not exist is no error.
func (t *Tree) Remove(ctx context.Context, allocID, task string) error {
	name := nameOf(allocID, task)
	if t.lacks != nil || !t.exists(name) {
		return nil
	}
	if err := t.end(ctx, name); err != nil {
		return err
	}
	return t.Adjust(ctx)
}

// Has reports whether the task has a group.
func (t *Tree) Has(allocID, task string) bool {
	return t.lacks == nil && t.exists(nameOf(allocID, task))
}

func (t *Tree) exists(name string) bool {
	return slices.ContainsFunc(t.layout.dirs(name), isDir)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Reserve sets the cores that an alloc of this agent has reserved, whatever its drivers; no
// cores release them. Adjust then writes the change.
func (t *Tree) Reserve(allocID string, cores []int) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Equal(t.held[allocID], cores) {
		return false
	}
	if len(cores) > 0 {
		t.held[allocID] = cores
	} else {
		delete(t.held, allocID)
	}
	t.shared = nil
	return true
}

// Shared returns the cores on which tasks without cores run: those that no alloc of this agent
// has reserved. fewer says that the machine has others. It does not need a tree.
func (t *Tree) Shared() (cores []int, fewer bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shared == nil {
		t.shared = t.left(nil)
	}
	all := t.cfg.Cores
	if t.cfg.All != nil {
		all = t.cfg.All
	}
	return t.shared, len(t.shared) < len(all())
}

// left returns the usable cores without the reserved ones and without those of this agent's
// allocs. If none is left, all are: a task without cores must be able to start, although the
// scheduler places none beside tasks that have reserved all cores. t.mu is held.
func (t *Tree) left(reserved []int) []int {
	usable := t.cfg.Cores()
	out := slices.DeleteFunc(slices.Clone(usable), func(c int) bool {
		return slices.Contains(reserved, c) || t.holds(c)
	})
	if len(out) == 0 {
		return usable
	}
	return out
}

func (t *Tree) holds(core int) bool {
	for _, cores := range t.held {
		if slices.Contains(cores, core) {
			return true
		}
	}
	return false
}

// Adjust writes which cores are shared, if there is a tree.
func (t *Tree) Adjust(ctx context.Context) error {
	if t.lacks != nil || !isDir(t.layout.top()) {
		return nil
	}
	return t.locked(ctx, func() error { return t.share(nil) })
}

// share writes which cores are shared and which are reserved; the cores in extra are
// reserved, too.
func (t *Tree) share(extra []int) error {
	reserved, err := t.layout.reserved()
	if err != nil {
		return err
	}
	reserved = append(reserved, extra...)
	t.mu.Lock()
	shared := t.left(reserved)
	for _, cores := range t.held {
		reserved = append(reserved, cores...)
	}
	t.mu.Unlock()
	slices.Sort(reserved)
	return t.layout.setCores(shared, slices.Compact(reserved))
}

// locked calls do while no other agent of the machine changes the tree's cores.
func (t *Tree) locked(ctx context.Context, do func() error) error {
	dir, err := os.Open(t.layout.top())
	if err != nil {
		return err
	}
	defer dir.Close() // closing releases the lock
	for {
		err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return do()
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock %s: %w", dir.Name(), err)
		}
		if err := sleep.For(ctx, poll); err != nil {
			return fmt.Errorf("another agent keeps %s locked: %w", dir.Name(), err)
		}
	}
}

// poll is the pause between two checks of a condition that becomes true soon.
const poll = 10 * time.Millisecond

// Sweep removes the groups of this agent whose tasks belong to no alloc, which a killed
// agent may have left. It returns the names of tasks, as ALLOC.TASK, that it ended.
func (t *Tree) Sweep(ctx context.Context, owned func(allocID, task string) bool) ([]string, error) {
	if t.lacks != nil {
		return nil, nil
	}
	var gone []string
	var errs []error
	for _, name := range t.layout.names() { // ask for owners only after listing, so that a new task is not taken for an orphan
		allocID, task, ok := strings.Cut(name, ".")
		if !ok || !t.mine(name) || owned(allocID, task) {
			continue
		}
		if err := t.Remove(ctx, allocID, task); err != nil {
			errs = append(errs, err)
			continue
		}
		gone = append(gone, name)
	}
	return gone, errors.Join(errs...)
}

// mine reports whether this agent has made the group.
func (t *Tree) mine(name string) bool {
	buf := make([]byte, 512)
	n, err := unix.Getxattr(t.layout.dirs(name)[0], ownerMark, buf)
	return err == nil && string(buf[:n]) == t.cfg.Owner
}

// children are the names of the directories in a directory.
func children(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // it is not there
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out
}

// mkdir makes a directory that may be there.
func mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
