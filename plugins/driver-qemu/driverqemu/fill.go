// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/drover-project/drover/sdk/errdefs"
)

// maxDepth is the length of a chain of backing files.
const maxDepth = 16

// filler builds the arguments of an emulator from a launch. It opens the files that
// they name and keeps them open until the emulator has inherited them.
type filler struct {
	l     *launch
	roots []root
	files []*os.File
}

// fill opens all files of a launch with the permissions of the calling process and
// returns the emulator's arguments. The descriptors in them are open until close.
func (l *launch) fill() (*filler, []string, error) {
	f := &filler{l: l}
	var err error
	if f.roots, err = openRoots(l.Roots); err != nil {
		return f, nil, err
	}
	var out []string
	for _, p := range l.Args {
		arg := p.Text
		if p.File != nil {
			if arg, err = f.argument(p.File); err != nil {
				return f, nil, err
			}
		}
		out = append(out, arg)
	}
	return f, out, nil
}

// close closes the opened files.
func (f *filler) close() {
	for _, file := range f.files {
		_ = file.Close() // the file was only read, or only QEMU writes it
	}
	for _, r := range f.roots {
		r.close()
	}
}

// argument returns the argument for a file.
func (f *filler) argument(file *file) (string, error) {
	path := file.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(f.l.TaskDir, path)
	}
	if !file.Disk {
		fd, _, err := f.open(path, false)
		if err != nil {
			return "", err
		}
		return openFile(fd), nil
	}
	node, err := f.node(path, file.Format, file.ReadOnly, 0)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(node)
	if err != nil {
		return "", fmt.Errorf("describe the image %s: %w", path, err)
	}
	arg := "file=json:" + escape(string(body))
	if file.Suffix != "" {
		arg += "," + file.Suffix
	}
	if file.ReadOnly {
		arg += ",readonly=on"
	}
	return arg, nil
}

// node describes an image to QEMU: its format, its descriptor, and its backing
// images.
func (f *filler) node(path, format string, readOnly bool, depth int) (map[string]any, error) {
	if depth > maxDepth {
		return nil, errdefs.InvalidArgumentf("image %s: it has more than %d backing files below it", path, maxDepth)
	}
	file, real, err := f.open(path, !readOnly && !f.l.Snapshot)
	if err != nil {
		return nil, err
	}
	h := header{Format: formatRaw} // a raw image has no header
	if format != formatRaw {
		if h, err = readFile(file); err == nil {
			err = h.as(format)
		}
		if err != nil {
			return nil, errdefs.InvalidArgumentf("image %s %w", path, err)
		}
	}
	node := map[string]any{"driver": h.Format, "file": map[string]any{"driver": "file", "filename": openFile(file)}}
	if h.Format == formatQcow2 {
		node["backing"], err = f.backing(path, filepath.Dir(real), h, depth)
	}
	return node, err
}

// backing describes the backing image of an image, which is never written. It
// returns nil if there is none.
func (f *filler) backing(path, dir string, h header, depth int) (any, error) {
	if h.Backing == "" {
		return nil, nil
	}
	below, err := backingPath(h.Backing)
	if err != nil {
		return nil, errdefs.InvalidArgumentf("image %s: %w", path, err)
	}
	if !filepath.IsAbs(below) {
		below = filepath.Join(dir, below)
	}
	node, err := f.node(below, h.BackingFormat, true, depth+1)
	if err != nil {
		return nil, fmt.Errorf("image %s has a backing file: %w", path, err)
	}
	return node, nil
}

func readFile(file *os.File) (header, error) {
	st, err := file.Stat()
	if err != nil {
		return header{}, fmt.Errorf("cannot be read: %w", err)
	}
	return readHeader(file, st.Size())
}

// openFiles is the folder of the descriptors that the emulator inherits.
const openFiles = "/proc/self/fd/"

// openFile is a name of an inherited file. QEMU opens the same file by it again, for reading
// or for writing, with locks that end when it closes the file. The locks of a descriptor of
// -add-fd never end, so a machine could not go on after a checkpoint.
func openFile(file *os.File) string { return openFiles + strconv.Itoa(int(file.Fd())) }

// open opens a regular file in an allowed directory and returns its resolved path.
func (f *filler) open(path string, write bool) (*os.File, string, error) {
	file, real, err := openBeneath(f.roots, path, write)
	if err != nil {
		return nil, "", err
	}
	f.files = append(f.files, file)
	return file, real, nil
}
