// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/drover-project/drover/sdk/errdefs"
)

// The tasks of an alloc can change what is in its directory at any moment, and a
// path that the daemon is given is resolved anew by the daemon. So the driver opens
// each source beneath that directory itself, without following links, mounts what
// it has opened into a folder that only root can enter, and gives the daemon that
// path. The mounts are needed until the container has been started.

// stagesDir is the folder of the state directory that has one folder per start.
const stagesDir = "mounts"

// source resolves what a task's config names beneath a directory of its alloc and
// returns the path for the daemon. Links are refused; create makes missing folders.
type source func(dir, rel string, create bool) (string, error)

// checked is the source that mounts nothing: it says what is wrong with a path
// before anything is fetched for the task.
func checked(dir, rel string, create bool) (string, error) {
	return filepath.Join(dir, rel), beneath(dir, rel, create)
}

// addBind shows a source of the alloc's directory. A mount fails where its source
// does not exist, for example in another mount namespace; a bind, which an option
// like a label needs, has the daemon make an empty folder, see stage.close.
func addBind(host *container.HostConfig, from, target string, options []string) {
	m := mount.Mount{Type: mount.TypeBind, Source: from, Target: target}
	for _, option := range options {
		propagation := mount.Propagation(option)
		switch {
		case option == "" || option == "rw":
		case option == "ro":
			m.ReadOnly = true
		case propagations[option] == propagation:
			m.BindOptions = &mount.BindOptions{Propagation: propagation}
		default:
			host.Binds = append(host.Binds, bind(from, target, options...))
			return
		}
	}
	host.Mounts = append(host.Mounts, m)
}

// stages are the folders in which starts mount what their containers shall see.
type stages struct {
	dir string

	mu   sync.Mutex
	mine map[string]bool // of this process, by name
}

func newStages(state string) *stages {
	return &stages{dir: filepath.Join(state, stagesDir), mine: map[string]bool{}}
}

// sweep removes what starts of processes that are gone have left mounted. The
// caller knows that no other process of the driver runs.
func (s *stages) sweep() error {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		s.mu.Lock()
		mine := s.mine[e.Name()]
		s.mu.Unlock()
		if !mine {
			errs = append(errs, clearStage(filepath.Join(s.dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// stage is the folder of one start, made when it is first needed.
type stage struct {
	all  *stages
	name string
	n    int
}

func (s *stage) dir() string { return filepath.Join(s.all.dir, s.name) }

// open makes the folder and a file system on it, which a daemon in another mount
// namespace does not see: to it the sources do not exist.
func (s *stage) open() error {
	if s.name != "" {
		return nil
	}
	if err := os.MkdirAll(s.all.dir, 0o700); err != nil {
		return errdefs.FailedPreconditionf("make the folder for the mounts of containers: %w", err)
	}
	dir, err := os.MkdirTemp(s.all.dir, "start-")
	if err != nil {
		return errdefs.FailedPreconditionf("make the folder for the mounts of containers: %w", err)
	}
	s.name = filepath.Base(dir)
	s.all.mu.Lock()
	s.all.mine[s.name] = true
	s.all.mu.Unlock()
	return mountStage(dir)
}

// close takes the mounts away. A folder that the daemon has made beneath them says
// that the daemon does not see them, and that the container got empty folders.
func (s *stage) close() error {
	if s.name == "" {
		return nil
	}
	err := clearStage(s.dir())
	s.all.mu.Lock()
	delete(s.all.mine, s.name)
	s.all.mu.Unlock()
	s.name = ""
	return err
}

// errUnseen says that the daemon has made folders where it should have seen ours.
var errUnseen = errdefs.FailedPreconditionf("the container got empty folders: the daemon does not see the agent's mounts")

// unseenCure is what to do where the daemon does not see our mounts.
func (s *stages) unseenCure() string {
	return "the daemon must see the mounts that the agent makes below " + s.dir + "; where one of the two runs in a container or a mount namespace of its own, share that folder's mounts with both (mount --make-rshared, docker run -v DIR:DIR:rshared)"
}

// beneath checks that no part of rel is a link, since a task could have made it
// to show its container what is not its own, and makes missing folders.
func beneath(dir, rel string, create bool) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	path := ""
	for part := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
		path = filepath.Join(path, part)
		st, err := root.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			if !create {
				return errors.New(joinPath(dir, rel) + " does not exist")
			}
			return root.MkdirAll(rel, 0o777)
		}
		if err != nil {
			return err
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			return errors.New(joinPath(dir, path) + " is a link; mount what it leads to")
		}
	}
	return nil
}
