// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/drover-project/drover/sdk/errdefs"
)

// The tasks of an alloc can change the alloc's directory at any moment, and the
// daemon resolves a path only when it uses it. So the driver opens each source in
// that directory itself without following links, mounts it in a directory that only
// root can enter, and passes that path to the daemon. The daemon resolves the path
// again whenever it starts the container or copies from it, so the mounts stay as
// long as the container exists. A label of the container names the directory with
// its mounts.

// stagesDir is the directory, within the state directory, that has a subdirectory
// per daemon, and in that one per container.
const stagesDir = "mounts"

// stagePrefix is the prefix of the names of containers' directories.
const stagePrefix = "start-"

// source resolves a path below a directory of the task's alloc and returns the path
// to pass to the daemon. It rejects links. If create is true it creates missing
// directories.
type source func(dir, rel string, create bool) (string, error)

// checked checks a source without mounting it, so that invalid paths are found before the
// image is pulled.
func checked(dir, rel string, create bool) (string, error) {
	return filepath.Join(dir, rel), beneath(dir, rel, create)
}

// addBind mounts a source of the alloc's directory in the container. It prefers a mount,
// because a mount fails if the daemon does not find the source, for example in another mount
// namespace. Options such as a label require a bind; for a bind the daemon would create an
// empty directory instead, see stage.unseen.
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

// stages manages the directories below which the sources of a container's mounts are mounted.
type stages struct {
	dir  string
	seen atomic.Bool // the daemon has accepted a container with our mounts

	mu   sync.Mutex
	mine map[string]bool // names of starts in progress in this process
}

func newStages(state string) *stages {
	return &stages{dir: filepath.Join(state, stagesDir), mine: map[string]bool{}}
}

// clear removes the mounts of a container that is gone. name is the value of its
// label; it is empty if nothing was mounted.
func (s *stages) clear(name string) error {
	if name == "" {
		return nil
	}
	if !filepath.IsLocal(name) || !strings.HasPrefix(filepath.Base(name), stagePrefix) {
		return errdefs.InvalidArgumentf("remove the mounts of a container: %q is not a directory of such mounts", name)
	}
	return clearStage(filepath.Join(s.dir, name))
}

// idle lists the directories of a daemon's containers that no start in this process uses,
// and the containers of older driver versions, which had no directory per daemon and whose
// containers need none. The caller must list the containers afterwards to find the
// directories that no container needs.
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

// stagesOf returns the name of the directory for a daemon. The directories are
// separate so that mounts are removed only if the containers of their daemon can be
// listed.
func stagesOf(endpoint string) string {
	sum := sha256.Sum256([]byte(endpoint))
	return hex.EncodeToString(sum[:6])
}

// stage is the directory of a container that is being started. It is created when it
// is first needed.
type stage struct {
	all      *stages
	endpoint string
	name     string   // empty until it is created
	under    *os.File // the directory beneath the mounted file system
	n        int
}

func (s *stage) dir() string { return filepath.Join(s.all.dir, s.name) }

// open creates the directory and mounts a file system on it. A daemon in another
// mount namespace does not see that mount, so for it the sources do not exist.
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

// make creates the directory and protects it from a concurrent sweep.
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

// unseen reports whether the daemon does not see the mounts. In that case it has
// created directories beneath them, and the container got these empty directories.
func (s *stage) unseen() (bool, error) {
	if s.under == nil {
		return false, nil
	}
	entries, err := s.under.ReadDir(-1)
	if err != nil {
		return false, errdefs.FailedPreconditionf("check for directories beneath the mounts of a container: %w", err)
	}
	return len(entries) > 0, nil
}

// release ends the start's claim on the directory. From now on it belongs to the
// container.
func (s *stage) release() {
	if s.under != nil {
		_ = s.under.Close() // it was only read
	}
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	delete(s.all.mine, s.name)
}

// errUnseen is returned if the daemon does not see the driver's mounts.
var errUnseen = errdefs.FailedPreconditionf("the container got empty folders: the daemon does not see the agent's mounts")

// explain adds to the daemon's refusal of a container with our mounts what to do if the daemon
// does not see them, unless it has accepted others with such mounts.
func (s *stages) explain(refused error) error {
	if s.seen.Load() {
		return refused
	}
	return errdefs.New(errdefs.InvalidArgument, fmt.Errorf("%w; if that is a path below %s, %s", refused, s.dir, s.unseenCure()))
}

// unseenCure says what to do if the daemon does not see our mounts.
func (s *stages) unseenCure() string {
	return "the daemon must see the mounts that the agent makes below " + s.dir + "; if one of the two runs in a container or another mount namespace, share that directory's mounts with both (mount --make-rshared, docker run -v DIR:DIR:rshared)"
}
