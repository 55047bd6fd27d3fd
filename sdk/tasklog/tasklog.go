// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package tasklog writes one output of a task into its numbered files, as
// LogConfig of sdk/driver/v1 asks for: PREFIX.0, PREFIX.1 and so on, each of a
// limited size, the last few kept. It owns the files, not where the output comes
// from. The log directory belongs to the task, so nothing in it is trusted: links
// are not followed and other people's files not written. Drivers that get their
// tasks' output as a stream import it, and core/pluginhost for foreign ones.
package tasklog

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Limits says how much of an output is kept.
type Limits struct {
	MaxFiles     int   // at least 1
	MaxFileBytes int64 // 0: 10 MiB
}

// Position is a place in an output: the offset in the file of that number.
type Position struct {
	Index  int
	Offset int64
}

// Writer writes one output. It is used by one goroutine at a time.
type Writer struct {
	dir     *os.Root
	prefix  string
	keep    int
	max     int64
	index   int
	size    int64
	file    *os.File
	dropped uint64
}

// OpenDir opens the log directory dir beneath root, which is trusted; no link in
// dir may lead out of root.
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

// New goes on with the file of the highest number. The directory stays the caller's.
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

// newest returns the highest number that there is, -1 for none.
func (w *Writer) newest() int {
	d, err := w.dir.Open(".")
	if err != nil {
		return -1
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1) // what could be read counts
	high := -1
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, w.prefix+".")
		if n, err := strconv.Atoi(rest); ok && err == nil && n > high && strconv.Itoa(n) == rest {
			high = n
		}
	}
	return high
}

// open opens the file of the current number; on failure file stays nil and
// output is dropped until a later try succeeds.
func (w *Writer) open() {
	w.Close()
	name := w.name(w.index)
	if st, err := w.dir.Lstat(name); err == nil && !own(st) {
		// A link, a pipe, a device or a second name of some other file lies where
		// the log belongs: take the name back, never what it leads to.
		_ = w.dir.Remove(name) // the open tells
	}
	f, err := w.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND|openFlags, 0o644)
	if err != nil {
		return
	}
	st, err := f.Stat()
	if err != nil || !own(st) {
		_ = f.Close() // nothing was written
		return
	}
	w.file, w.size = f, st.Size()
}

// own reports whether a file is an ordinary one with this name only.
func own(st fs.FileInfo) bool { return st.Mode().IsRegular() && links(st) == 1 }

// Write never fails and never waits for the disk to have room: what cannot be
// written is counted and dropped.
func (w *Writer) Write(p []byte) (int, error) {
	total := len(p)
	if w.file != nil {
		// Somebody may have removed the file, or cut it.
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
			break
		}
	}
	return total, nil
}

// rotate goes on to the next file and removes those that are too many.
func (w *Writer) rotate() {
	w.index++
	w.open()
	for old := w.index - w.keep; old >= 0; old-- {
		if w.dir.Remove(w.name(old)) != nil {
			break // the older ones went when their turn came
		}
	}
}

// Position returns where the next byte goes.
func (w *Writer) Position() Position { return Position{Index: w.index, Offset: w.size} }

// Since returns how many bytes have been written after p.
func (w *Writer) Since(p Position) int64 {
	var n int64
	for i := p.Index; i <= w.index; i++ {
		st, err := w.dir.Lstat(w.name(i))
		if err == nil && st.Mode().IsRegular() {
			n += st.Size()
		}
	}
	return max(n-p.Offset, 0)
}

// Written returns when something was written last; 1970 if nothing ever was.
func (w *Writer) Written() time.Time {
	st, err := w.dir.Lstat(w.name(w.index))
	if err != nil || st.Size() == 0 && w.index == 0 {
		return time.Unix(0, 0)
	}
	return st.ModTime()
}

// Dropped returns how many bytes could not be written.
func (w *Writer) Dropped() uint64 { return w.dropped }

// Close closes the current file. A later Write opens it again.
func (w *Writer) Close() {
	if w.file != nil {
		_ = w.file.Close() // every write told its own error
		w.file = nil
	}
}
