// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package artifact

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-project/drover/core/agent/artifact/wire"
)

// stagePrefix is the prefix of staging directories. They are in the alloc's own
// directory, to which only the agent can write, so that no task can replace them, and
// a rename can move the artifact to its destination.
const stagePrefix = ".artifact-"

// stage is the staging directory of one fetch.
type stage struct {
	f     *Fetcher
	path  string
	alloc *os.Root // the alloc's folder
	name  string   // name of the staging folder below path
	child identity // user of the child process
	owner owner    // owner of the fetched files
}

// stage creates the directory for a fetch, and removes those that an agent process
// which was killed has left.
func (f *Fetcher) stage(alloc, binary string) (*stage, error) {
	root, err := os.OpenRoot(alloc)
	if err != nil {
		return nil, fmt.Errorf("open the alloc's folder: %w", err)
	}
	st := &stage{f: f, alloc: root, child: f.childIdentity(alloc, binary)}
	for _, name := range f.stale(alloc) {
		if err := removeAll(root, name); err != nil {
			f.log.Warn("a staging folder of an earlier run cannot be removed; it goes with the alloc", "folder", name, "error", err)
		}
	}
	f.mu.Lock()
	path, err := os.MkdirTemp(alloc, stagePrefix)
	if err == nil {
		f.active[path] = true
	}
	f.mu.Unlock()
	if err != nil {
		_ = root.Close()
		return nil, fmt.Errorf("make a staging folder: %w", err)
	}
	st.path, st.name = path, filepath.Base(path)
	if err := st.furnish(); err != nil {
		st.remove()
		return nil, fmt.Errorf("make a staging folder: %w", err)
	}
	return st, nil
}

// furnish creates the directories that the child needs and makes its user their owner.
func (st *stage) furnish() error {
	for _, name := range []string{wire.TmpName, wire.HomeName} {
		if err := os.Mkdir(filepath.Join(st.path, name), 0o700); err != nil {
			return err
		}
		if err := st.child.own(filepath.Join(st.path, name)); err != nil {
			return err
		}
	}
	return st.child.own(st.path)
}

// stale lists the staging folders of an alloc that no fetch of this agent uses.
func (f *Fetcher) stale(alloc string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	entries, err := os.ReadDir(alloc)
	if err != nil {
		return nil // making the folder will report what is wrong
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), stagePrefix) && !f.active[filepath.Join(alloc, e.Name())] {
			out = append(out, e.Name())
		}
	}
	return out
}

// remove deletes the staging folder with what is left in it.
func (st *stage) remove() {
	if err := removeAll(st.alloc, st.name); err != nil {
		st.f.log.Warn("a staging folder cannot be removed; it goes with the alloc", "folder", st.path, "error", err)
	}
	_ = st.alloc.Close()
	st.f.mu.Lock()
	defer st.f.mu.Unlock()
	delete(st.f.active, st.path)
}

// removeAll removes a tree whose folders may forbid writing.
func removeAll(root *os.Root, name string) error {
	err := root.RemoveAll(name)
	if err == nil {
		return nil
	}
	_ = walk(root, name, func(path string, info os.FileInfo) error {
		if info.IsDir() {
			_ = root.Chmod(path, 0o700)
		}
		return nil
	})
	return root.RemoveAll(name)
}
