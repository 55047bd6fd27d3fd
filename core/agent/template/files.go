// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// files reads and writes below the directories of one task.
type files struct {
	taskDir, allocDir string
	env               map[string]string
	open              bool // without a sandbox
}

// stamp reports whether a file has changed.
type stamp struct {
	modified time.Time
	size     int64
}

// place is a file below a directory that it may not leave.
type place struct{ root, rel string }

// find resolves a path in a job file. It may name  and is taken from the task's directory;
// an absolute path is one that the agent knows or one that the task sees, in which /alloc
// is the shared directory.
func (f *files) find(path string) (place, error) {
	path = filepath.FromSlash(f.expand(path))
	if strings.ContainsRune(path, 0) || path == "" {
		return place{}, errdefs.InvalidArgumentf("%q is not a path of a file", path)
	}
	if f.open {
		if !filepath.IsAbs(path) {
			path = filepath.Join(f.taskDir, path)
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		return place{root: filepath.Dir(path), rel: filepath.Base(path)}, nil
	}
	full := path
	if !within(f.taskDir, path) && !within(f.allocDir, path) {
		full = filepath.Join(f.taskDir, path)
	}
	full = filepath.Clean(full)
	shared := filepath.Join(f.taskDir, filepath.Base(f.allocDir))
	for _, at := range []place{{f.allocDir, f.allocDir}, {f.allocDir, shared}, {f.taskDir, f.taskDir}} {
		if within(at.rel, full) && full != at.rel {
			rel, err := filepath.Rel(at.rel, full)
			return place{root: at.root, rel: rel}, err
		}
	}
	return place{}, outside(path)
}

// secret reports whether find would say that a path is in the task's folder for secrets.
func (f *files) secret(path string) bool {
	path = filepath.FromSlash(f.expand(path))
	if !within(f.taskDir, path) && (!f.open || !filepath.IsAbs(path)) {
		path = filepath.Join(f.taskDir, path)
	}
	return within(filepath.Join(f.taskDir, "secrets"), filepath.Clean(path))
}

// findInput is find for files that are read: of absolute paths, those that the agent knows
// and the paths of the folders that a task is given. Others mean files of the node.
func (f *files) findInput(path string) (place, error) {
	full := filepath.Clean(filepath.FromSlash(f.expand(path)))
	if f.open || !filepath.IsAbs(full) || within(f.taskDir, full) || within(f.allocDir, full) {
		return f.find(path)
	}
	for _, dir := range []string{"local", "secrets", "alloc"} {
		if within(string(filepath.Separator)+dir, full) {
			return f.find(path)
		}
	}
	return place{}, outside(path)
}

func outside(path string) error {
	return errdefs.PermissionDeniedf("the path %q is outside of the task's directory; use local/, secrets/ or the shared alloc/ directory", path)
}

func within(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator))
}

// expand replaces ${NAME} by variables of the task, the three directories by
// where the agent sees them. What is unknown stays.
func (f *files) expand(s string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		out.WriteString(before)
		name, after, closed := strings.Cut(rest, "}")
		if !found {
			return out.String()
		}
		value, known := f.lookup(name)
		switch {
		case !closed:
			out.WriteString("${" + rest)
			return out.String()
		case known:
			out.WriteString(value)
		default:
			out.WriteString("${" + name + "}")
		}
		s = after
	}
}

func (f *files) lookup(name string) (string, bool) {
	name = strings.TrimPrefix(strings.TrimSpace(name), "env.")
	if inner, ok := strings.CutPrefix(name, "env["); ok {
		name = strings.Trim(inner, "\"'] ")
	}
	switch name {
	case "NOMAD_TASK_DIR":
		return filepath.Join(f.taskDir, "local"), true
	case "NOMAD_SECRETS_DIR":
		return filepath.Join(f.taskDir, "secrets"), true
	case "NOMAD_ALLOC_DIR":
		return f.allocDir, true
	}
	v, ok := f.env[name]
	return v, ok
}

// read returns a file of at most limit bytes. It never blocks, since it refuses everything
// but regular files.
func (f *files) read(path string, limit int64) ([]byte, stamp, error) {
	at, err := f.findInput(path)
	if err != nil {
		return nil, stamp{}, err
	}
	return f.readAt(at, path, limit)
}

// readAt is read where the place is known; path is for messages.
func (f *files) readAt(at place, path string, limit int64) ([]byte, stamp, error) {
	root, err := os.OpenRoot(at.root)
	if err != nil {
		return nil, stamp{}, classed(fmt.Errorf("read %q: %w", path, err))
	}
	defer root.Close()
	file, err := root.OpenFile(at.rel, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, stamp{}, classed(fmt.Errorf("read %q: %w", path, err))
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, stamp{}, classed(fmt.Errorf("read %q: %w", path, err))
	}
	st := stamp{modified: info.ModTime(), size: info.Size()}
	if !info.Mode().IsRegular() {
		return nil, st, errdefs.InvalidArgumentf("%q is not a regular file", path)
	}
	raw, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, st, classed(fmt.Errorf("read %q: %w", path, err))
	}
	if int64(len(raw)) > limit {
		return nil, st, errdefs.ResourceExhaustedf("%q has more than %d bytes, which is what templates may read", path, limit)
	}
	return raw, st, nil
}

// stamp looks at a file without reading it.
func (f *files) stamp(path string) stamp {
	at, err := f.find(path)
	if err != nil {
		return stamp{}
	}
	root, err := os.OpenRoot(at.root)
	if err != nil {
		return stamp{}
	}
	defer root.Close()
	info, err := root.Stat(at.rel)
	if err != nil {
		return stamp{}
	}
	return stamp{modified: info.ModTime(), size: info.Size()}
}

// classed gives errors of the file system a class.
func classed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errdefs.New(errdefs.NotFound, err)
	}
	return errdefs.New(errdefs.FailedPrecondition, err)
}

// owner is the owner of a rendered file; -1 means the agent's user.
type owner struct{ uid, gid int }

// ownerOf returns the owner that the template names, or else the task's user, if this agent
// may change owners.
func ownerOf(spec *model.Template, task Task) owner {
	own := owner{uid: -1, gid: -1}
	if os.Geteuid() == 0 {
		own = owner{uid: task.UID, gid: task.GID}
	}
	if spec.Uid != nil && *spec.Uid >= 0 {
		own.uid = *spec.Uid
	}
	if spec.Gid != nil && *spec.Gid >= 0 {
		own.gid = *spec.Gid
	}
	return own
}

// modeOf reads the octal permissions of a template.
func modeOf(spec *model.Template) (fs.FileMode, error) {
	if spec.Perms == "" {
		return 0o644, nil
	}
	n, err := strconv.ParseUint(spec.Perms, 8, 12)
	if err != nil || n > 0o777 {
		return 0, errdefs.InvalidArgumentf("the perms %q of the template for %q are not octal permissions such as 0644", spec.Perms, spec.DestPath)
	}
	return fs.FileMode(n), nil
}

// write puts a file in its place at once: readers see the old or the new one.
func (f *files) write(at place, data []byte, mode fs.FileMode, own owner) (err error) {
	defer func() {
		if err != nil {
			err = classed(fmt.Errorf("write the template's file %q: %w", at.rel, err))
		}
	}()
	if f.open {
		if err := os.MkdirAll(at.root, 0o755); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(at.root)
	if err != nil {
		return err
	}
	defer root.Close()
	return allocdir.Replace(root, at.rel, data, mode, own.uid, own.gid)
}

// differs reports whether the file at a place differs from data.
func (f *files) differs(at place, data []byte) bool {
	root, err := os.OpenRoot(at.root)
	if err != nil {
		return true
	}
	defer root.Close()
	file, err := root.OpenFile(at.rel, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return true
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(data)) {
		return true
	}
	old, err := io.ReadAll(io.LimitReader(file, int64(len(data))+1))
	return err != nil || !bytes.Equal(old, data)
}
