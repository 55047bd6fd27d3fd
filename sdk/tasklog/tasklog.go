// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package tasklog writes one output stream of a task to its numbered log files, as
// LogConfig of sdk/driver/v1 requires: PREFIX.0, PREFIX.1 and so on, each of a limited
// size, of which it keeps the last few. It owns the files, not the source of the
// output. The log directory belongs to the task, so nothing in it is trusted: links
// are not followed, and files with other hard links are not written to. Drivers that
// receive their tasks' output as a stream import it, and core/pluginhost does for
// foreign drivers.
package tasklog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Limits limits how much of an output is kept.
type Limits struct {
	MaxFiles     int   // at least 1
	MaxFileBytes int64 // 0 means 10 MiB
}

// Position is a position in an output: an offset in the file with the given number.
type Position struct {
	Index  int
	Offset int64
}

// Writer writes one output. It must not be used concurrently.
type Writer struct {
	dir     *os.Root
	prefix  string
	keep    int
	max     int64
	index   int
	size    int64
	file    *os.File
	dropped uint64
	failure error // why output was dropped last
}

// OpenDir opens the log directory dir below root. root is trusted; a link in dir
// cannot lead out of root.
func OpenDir(root, dir string) (*os.Root, error) {
	rel, err := filepath.Rel(root, dir)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, fmt.Errorf("open the log directory: %s is not beneath %s", dir, root)
	}
	top, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("open the log directory: %w", err)
	}
	defer top.Close()
	logs, err := top.OpenRoot(rel)
	if err != nil {
		return nil, fmt.Errorf("open the log directory: %w", err)
	}
	return logs, nil
}

// New returns a writer that continues with the highest-numbered file. dir stays owned
// by the caller.
func New(dir *os.Root, prefix string, l Limits) *Writer {
	w := &Writer{dir: dir, prefix: prefix, keep: max(l.MaxFiles, 1), max: l.MaxFileBytes}
	if w.max <= 0 {
		w.max = 10 << 20
	}
	w.index = max(w.newest(), 0)
	w.open()
	return w
}

func (w *Writer) name(index int) string { return w.prefix + "." + strconv.Itoa(index) }

// newest returns the highest file number, or -1 if there are no files.
func (w *Writer) newest() int {
	d, err := w.dir.Open(".")
	if err != nil {
		return -1
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1) // a partial result is good enough
	high := -1
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, w.prefix+".")
		if n, err := strconv.Atoi(rest); ok && err == nil && n > high && strconv.Itoa(n) == rest {
			high = n
		}
	}
	return high
}

// open opens the file with the current number. If that fails, file stays nil, and
// output is dropped until a later attempt succeeds.
func (w *Writer) open() {
	w.Close()
	name := w.name(w.index)
	if st, err := w.dir.Lstat(name); err == nil && !own(st) {
		// The name is taken by a link, a FIFO, a device or a hard link to another
		// file: remove the name, and never open what it refers to.
		_ = w.dir.Remove(name) // an error shows when the file is opened
	}
	f, err := w.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND|openFlags, 0o644)
	if err != nil {
		w.failure = err
		return
	}
	st, err := f.Stat()
	if err != nil || !own(st) {
		w.failure = errors.Join(fmt.Errorf("%s cannot be used: it is no file with one name", name), err)
		_ = f.Close() // nothing was written
		return
	}
	w.file, w.size = f, st.Size()
}

// own reports whether the file is a regular file with no other hard links.
func own(st fs.FileInfo) bool { return st.Mode().IsRegular() && links(st) == 1 }

// Write never fails and never waits for disk space: it counts and drops what cannot be
// written.
func (w *Writer) Write(p []byte) (int, error) {
	total := len(p)
	if w.file != nil {
		// The file may have been removed or truncated.
		if st, err := w.file.Stat(); err != nil || links(st) == 0 {
			w.open()
		} else {
			w.size = st.Size()
		}
	}
	for len(p) > 0 {
		if w.file != nil && w.size >= w.max {
			w.rotate()
		}
		if w.file == nil {
			if w.open(); w.file == nil {
				w.dropped += uint64(len(p))
				break
			}
			continue
		}
		n, err := w.file.Write(p[:min(int64(len(p)), max(w.max-w.size, 0))])
		w.size += int64(n)
		p = p[n:]
		if err != nil {
			w.dropped += uint64(len(p))
			w.failure = err
			break
		}
	}
	return total, nil
}

// rotate opens the next file and removes files beyond the limit.
func (w *Writer) rotate() {
	w.index++
	w.open()
	for old := w.index - w.keep; old >= 0; old-- {
		if w.dir.Remove(w.name(old)) != nil {
			break // older files were removed by earlier rotations
		}
	}
}

// Position returns the position of the next byte.
func (w *Writer) Position() Position { return Position{Index: w.index, Offset: w.size} }

// Since returns how many bytes have been written after p.
func (w *Writer) Since(p Position) int64 {
	var n int64
	for i := p.Index; i <= w.index; i++ {
		st, err := w.dir.Lstat(w.name(i))
		switch {
		case err == nil && st.Mode().IsRegular():
			n += st.Size()
		case i < w.index && errors.Is(err, fs.ErrNotExist):
			n += w.max // the file was full when it was removed
		}
	}
	return max(n-p.Offset, 0)
}

// Written returns the time of the last write, or the Unix epoch if there was none.
func (w *Writer) Written() time.Time {
	st, err := w.dir.Lstat(w.name(w.index))
	if err != nil || st.Size() == 0 && w.index == 0 {
		return time.Unix(0, 0)
	}
	return st.ModTime()
}

// Dropped returns how many bytes could not be written.
func (w *Writer) Dropped() uint64 { return w.dropped }

// Failure returns why output was dropped last; it is nil if none was.
func (w *Writer) Failure() error {
	if w.dropped == 0 {
		return nil
	}
	return w.failure
}

// Close closes the current file. A later Write opens it again.
func (w *Writer) Close() {
	if w.file != nil {
		_ = w.file.Close() // every Write handled its own error
		w.file = nil
	}
}
