// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"crypto/sha256"
	"encoding/hex"
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
// path. The daemon resolves it again whenever it starts the container or copies from
// it, so the mounts stay for as long as there is the container, whose label names
// their folder.

// stagesDir is the folder of the state directory that has one folder per daemon,
// in which there is one folder per container.
const stagesDir = "mounts"

// stagePrefix is how the name of a container's folder begins.
const stagePrefix = "start-"

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
// like a label needs, has the daemon make an empty folder, see stage.unseen.
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

// stages are the folders in which is mounted what containers see of their allocs.
type stages struct {
	dir string

	mu   sync.Mutex
	mine map[string]bool // of starts in this process that are not done, by name
}

func newStages(state string) *stages {
	return &stages{dir: filepath.Join(state, stagesDir), mine: map[string]bool{}}
}

// clear takes away what is mounted for a container that is gone. The name is the
// value of its label: empty if nothing is mounted for it.
func (s *stages) clear(name string) error {
	if name == "" {
		return nil
	}
	if !filepath.IsLocal(name) || !strings.HasPrefix(filepath.Base(name), stagePrefix) {
		return errdefs.InvalidArgumentf("take away the mounts of a container: %q is no folder of them", name)
	}
	return clearStage(filepath.Join(s.dir, name))
}

// idle lists the folders of a daemon's containers that no start of this process
// works on, and those of the driver's versions that had no folder per daemon, whose
// containers need none. Whoever wants to know which of them no container needs
// lists the containers after that.
func (s *stages) idle(endpoint string) ([]string, error) {
	var out []string
	var errs []error
	for _, in := range []string{".", stagesOf(endpoint)} {
		entries, err := os.ReadDir(filepath.Join(s.dir, in))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		s.mu.Lock()
		for _, e := range entries {
			if name := filepath.Join(in, e.Name()); strings.HasPrefix(e.Name(), stagePrefix) && !s.mine[name] {
				out = append(out, name)
			}
		}
		s.mu.Unlock()
	}
	return out, errors.Join(errs...)
}

// stagesOf is the name of the folder for a daemon: only those whose containers can
// be listed may lose their mounts.
func stagesOf(endpoint string) string {
	sum := sha256.Sum256([]byte(endpoint))
	return hex.EncodeToString(sum[:6])
}

// stage is the folder of a container that is being started, made when it is first
// needed.
type stage struct {
	all      *stages
	endpoint string
	name     string   // empty before it is made
	under    *os.File // the folder that the mounts cover
	n        int
}

func (s *stage) dir() string { return filepath.Join(s.all.dir, s.name) }

// open makes the folder and a file system on it, which a daemon in another mount
// namespace does not see: to it the sources do not exist.
func (s *stage) open() error {
	if s.name != "" {
		return nil
	}
	of := stagesOf(s.endpoint)
	err := os.MkdirAll(filepath.Join(s.all.dir, of), 0o700)
	if err == nil {
		err = s.make(of)
	}
	if err != nil {
		return errdefs.FailedPreconditionf("make the folder for the mounts of a container: %w", err)
	}
	return mountStage(s.dir())
}

// make makes the folder; a sweep that comes meanwhile leaves it alone.
func (s *stage) make(of string) error {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	dir, err := os.MkdirTemp(filepath.Join(s.all.dir, of), stagePrefix)
	if err != nil {
		return err
	}
	s.name = filepath.Join(of, filepath.Base(dir))
	s.all.mine[s.name] = true
	s.under, err = os.Open(dir)
	return err
}

// unseen reports whether the daemon does not see the mounts: then it has made
// folders beneath them, and the container got these, which are empty.
func (s *stage) unseen() (bool, error) {
	if s.under == nil {
		return false, nil
	}
	entries, err := s.under.ReadDir(-1)
	if err != nil {
		return false, errdefs.FailedPreconditionf("look beneath the mounts of a container: %w", err)
	}
	return len(entries) > 0, nil
}

// release ends the start's work on the folder, which is the container's from now on.
func (s *stage) release() {
	if s.under != nil {
		_ = s.under.Close() // only read from
	}
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	delete(s.all.mine, s.name)
}

// errUnseen says that the daemon has made folders where it should have seen ours.
var errUnseen = errdefs.FailedPreconditionf("the container got empty folders: the daemon does not see the agent's mounts")

// unseenCure is what to do where the daemon does not see our mounts.
func (s *stages) unseenCure() string {
	return "the daemon must see the mounts that the agent makes below " + s.dir + "; where one of the two runs in a container or a mount namespace of its own, share that folder's mounts with both (mount --make-rshared, docker run -v DIR:DIR:rshared)"
}
