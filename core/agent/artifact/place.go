// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package artifact

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/drover-project/drover/core/agent/artifact/wire"
	"github.com/drover-project/drover/sdk/errdefs"
)

// place moves the artifact to its destination. It merges into existing directories and
// replaces files. It first checks for everything that could prevent this; if a move
// fails nevertheless, it removes what it has created.
func (st *stage) place(dest destination, mode string) error {
	p := &placement{root: st.alloc, owner: st.owner}
	from := path.Join(st.name, wire.OutName)
	to := filepath.ToSlash(dest.rel)
	if mode == "file" && dest.dir {
		return errdefs.InvalidArgumentf("destination names a folder where mode \"file\" asks for the file's own path; add the file's name")
	}
	err := p.conflicts(from, to)
	if err == nil {
		err = p.parents(path.Dir(to))
	}
	if err == nil {
		err = p.move(from, to)
	}
	if err != nil {
		p.undo()
		return fmt.Errorf("put the artifact in its place: %w", err)
	}
	return nil
}

// placement is the state of one move; made lists the paths that it has created.
type placement struct {
	root  *os.Root
	owner owner
	made  []string
}

// conflicts rejects a file in place of a directory, a directory in place of a file,
// and a path through a link, which a task may have created.
func (p *placement) conflicts(from, to string) error {
	for dir := path.Dir(to); dir != "."; dir = path.Dir(dir) {
		info, err := p.root.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("look at %q: %w", dir, err)
		}
		if !info.IsDir() {
			return errdefs.InvalidArgumentf("destination leads through %q, which is %s; name another", dir, kind(info.Mode()))
		}
	}
	return p.collide(from, to)
}

func (p *placement) collide(from, to string) error {
	have, err := p.root.Lstat(to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at %q: %w", to, err)
	}
	come, err := p.root.Lstat(from)
	if err != nil {
		return fmt.Errorf("look at %q: %w", from, err)
	}
	if come.IsDir() != have.IsDir() {
		return errdefs.InvalidArgumentf("%q is %s already, and the artifact has %s there; choose another destination", to, kind(have.Mode()), kind(come.Mode()))
	}
	if !come.IsDir() {
		return nil
	}
	return p.each(from, to, p.collide)
}

// parents makes the folders above the destination.
func (p *placement) parents(dir string) error {
	at := ""
	for part := range strings.SplitSeq(dir, "/") {
		at = path.Join(at, part)
		err := p.root.Mkdir(at, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("make the folder %q: %w", at, err)
		}
		p.made = append(p.made, at)
		if err := p.owner.own(p.root, at); err != nil {
			return fmt.Errorf("give the folder %q to the task's user: %w", at, err)
		}
	}
	return nil
}

// move moves one file or folder.
func (p *placement) move(from, to string) error {
	come, err := p.root.Lstat(from)
	if err != nil {
		return fmt.Errorf("look at %q: %w", from, err)
	}
	have, err := p.root.Lstat(to)
	fresh := errors.Is(err, fs.ErrNotExist)
	if err != nil && !fresh {
		return fmt.Errorf("look at %q: %w", to, err)
	}
	if fresh || !come.IsDir() || !have.IsDir() {
		err := p.root.Rename(from, to)
		if acrossDevices(err) {
			err = p.copy(from, to, come)
		}
		if err != nil {
			return fmt.Errorf("move it to %q: %w", to, err)
		}
		if fresh {
			p.made = append(p.made, to)
		}
		return nil
	}
	return p.each(from, to, p.move)
}

// each calls do for everything in a folder, with its path there and in the folder to.
func (p *placement) each(from, to string, do func(from, to string) error) error {
	names, err := namesOf(p.root, from, maxEntries)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := do(path.Join(from, n), path.Join(to, n)); err != nil {
			return err
		}
	}
	return nil
}

// copy copies if a rename is not possible (the task's secrets are a separate file
// system).
func (p *placement) copy(from, to string, info os.FileInfo) error {
	switch {
	case info.IsDir():
		if err := p.root.Mkdir(to, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make the folder: %w", err)
		}
		p.made = append(p.made, to)
		if err := p.each(from, to, p.move); err != nil {
			return err
		}
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := p.root.Readlink(from)
		if err != nil {
			return fmt.Errorf("read the link: %w", err)
		}
		if err := p.root.RemoveAll(to); err != nil {
			return fmt.Errorf("replace the existing files: %w", err)
		}
		if err := p.root.Symlink(target, to); err != nil {
			return fmt.Errorf("make the link: %w", err)
		}
		return p.owner.own(p.root, to)
	default:
		if err := p.copyFile(from, to); err != nil {
			return err
		}
	}
	if err := p.owner.own(p.root, to); err != nil {
		return fmt.Errorf("give it to the task's user: %w", err)
	}
	if err := p.root.Chmod(to, info.Mode().Perm()); err != nil {
		return fmt.Errorf("set its permissions: %w", err)
	}
	return nil
}

// copyFile writes to a temporary file beside the destination and renames it, so that
// the destination is never incomplete.
func (p *placement) copyFile(from, to string) (err error) {
	src, err := p.root.Open(from)
	if err != nil {
		return fmt.Errorf("open it: %w", err)
	}
	defer func() { _ = src.Close() }()
	part := path.Join(path.Dir(to), stagePrefix+path.Base(to))
	defer func() {
		if err != nil {
			_ = p.root.Remove(part)
		}
	}()
	if err := p.root.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the remains of an earlier copy: %w", err)
	}
	dst, err := p.root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make the file: %w", err)
	}
	_, err = io.Copy(dst, src)
	if cerr := dst.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write the file: %w", err)
	}
	if err := p.root.Rename(part, to); err != nil {
		return fmt.Errorf("name the file: %w", err)
	}
	return nil
}

func (p *placement) undo() {
	for i := len(p.made) - 1; i >= 0; i-- {
		_ = removeAll(p.root, p.made[i]) // the fetch has already failed; remaining files are removed with the alloc
	}
}
