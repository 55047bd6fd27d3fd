// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// List returns the entries of a folder, sorted by name. name is relative to the
// alloc's directory. What is in a secrets folder is listed, as the job file says it too, and
// cannot be read.
func (d Dir) List(name string) ([]model.FileInfo, error) {
	f, _, err := d.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, errdefs.InvalidArgumentf("list %q: %w", name, err)
	}
	out := make([]model.FileInfo, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // gone meanwhile
		}
		out = append(out, fileInfo(info))
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// Stat describes a file or folder.
func (d Dir) Stat(name string) (model.FileInfo, error) {
	f, secret, err := d.open(name)
	if err != nil {
		return model.FileInfo{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return model.FileInfo{}, fmt.Errorf("stat %q: %w", name, err)
	}
	out := fileInfo(info)
	if info.Mode().IsRegular() && !secret {
		out.ContentType = contentType(f, info.Name())
	}
	return out, nil
}

// Open opens a file or directory of the alloc for reading. It rejects other types of files,
// because opening a FIFO would block.
func (d Dir) Open(name string) (*os.File, error) {
	f, secret, err := d.open(name)
	if err == nil && secret {
		return nil, errors.Join(errdefs.PermissionDeniedf("Reading secret file prohibited: %s", name), f.Close())
	}
	return f, err
}

// open is Open for those who read no contents of secrets, and reports whether it is one.
func (d Dir) open(name string) (_ *os.File, secret bool, _ error) {
	root, err := os.OpenRoot(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, errdefs.NotFoundf("the alloc's directory %s is gone from this node: %w", d.Path, err)
	}
	if err != nil {
		return nil, false, fmt.Errorf("open the alloc directory: %w", err)
	}
	defer root.Close()
	rel, err := resolve(root, name)
	if err != nil {
		return nil, false, err
	}
	secret, private := isSecret(rel)
	if private {
		return nil, false, errdefs.PermissionDeniedf("Reading secret file prohibited: %s", name)
	}
	if info, err := root.Stat(rel); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil, false, errdefs.InvalidArgumentf("%s is neither a file nor a folder", name)
	}
	f, err := root.Open(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, errdefs.NotFoundf("stat %s: no such file or directory", filepath.Join(d.Path, rel))
	}
	if err != nil {
		return nil, false, errdefs.InvalidArgumentf("open %q: %w", name, err)
	}
	secrets := ""
	if secret {
		secrets = d.Secrets(strings.SplitN(filepath.ToSlash(rel), "/", 2)[0])
	}
	if err := ownFile(d.Path, secrets, f, name); err != nil {
		return nil, false, errors.Join(err, f.Close())
	}
	return f, secret, nil
}

// isSecret reports whether a resolved path lies in a task's secrets folder, or in the private
// one, which not even the task sees.
func isSecret(rel string) (secret, private bool) {
	parts := strings.Split(filepath.ToSlash(rel), "/")
	if len(parts) < 2 || parts[0] == SharedDir {
		return false, false
	}
	return parts[1] == SecretsDir, parts[1] == PrivateDir
}

const maxLinks = 40

// resolve returns the path to which name leads, without links, so that a link into a
// secrets folder is recognized. Access is confined by os.Root, even if a task replaces
// directories meanwhile.
func resolve(root *os.Root, name string) (string, error) {
	todo := strings.Split(path.Clean(filepath.ToSlash(name)), "/")
	var done []string
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if len(done) == 0 {
				return "", errdefs.InvalidArgumentf("Path escapes the alloc directory")
			}
			done = done[:len(done)-1]
			continue
		}
		at := strings.Join(append(done[:len(done):len(done)], part), "/")
		target, err := root.Readlink(at)
		if err != nil { // no link, or it does not exist: opening it will report that
			done = append(done, part)
			continue
		}
		if links++; links > maxLinks {
			return "", errdefs.InvalidArgumentf("%s goes through more than %d links", name, maxLinks)
		}
		if filepath.IsAbs(target) {
			return "", errdefs.InvalidArgumentf("Path escapes the alloc directory")
		}
		todo = append(strings.Split(filepath.ToSlash(target), "/"), todo...)
	}
	if len(done) == 0 {
		return ".", nil
	}
	return strings.Join(done, "/"), nil
}

func fileInfo(i fs.FileInfo) model.FileInfo {
	return model.FileInfo{Name: i.Name(), IsDir: i.IsDir(), Size: i.Size(), FileMode: i.Mode().String(), ModTime: i.ModTime().UTC()}
}

func contentType(f *os.File, name string) string {
	if t := mime.TypeByExtension(filepath.Ext(name)); t != "" {
		return t
	}
	buf := make([]byte, 512)
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "application/octet-stream"
	}
	return http.DetectContentType(buf[:n])
}
