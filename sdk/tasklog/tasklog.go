// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package tasklog writes the output of a task into rotated files the way that
// LogConfig of sdk/driver/v1 asks drivers to. It owns the naming, rotation and
// the refusal of links; it does not own where the output comes from. Drivers that
// get their tasks' output as a stream use it, and the agent for foreign plugins.
package tasklog

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Defaults for what a config leaves at zero.
const (
	DefaultMaxFiles      = 10
	DefaultMaxFileSizeMB = 10
)

// Writer writes one output of a task into BASE.0, BASE.1 and so on. Its Write
// never fails and never blocks on a full disk: what cannot be kept is counted
// and dropped, for a task must not die of its log. It is safe for concurrent use.
type Writer struct {
	mu      sync.Mutex
	root    *os.Root // the log directory: links that lead out of it are refused
	prefix  string
	keep    int
	max     int64
	index   int
	size    int64
	file    *os.File
	dropped uint64
}

// Open goes on with the newest file of base (an absolute path, as LogConfig.StdoutPath),
// or makes the first one. The directory must exist.
func Open(base string, maxFiles, maxFileSizeMB int) (*Writer, error) {
	root, err := os.OpenRoot(filepath.Dir(base))
	if err != nil {
		return nil, fmt.Errorf("open the log directory: %w", err)
	}
	if maxFiles <= 0 {
		maxFiles = DefaultMaxFiles
	}
	if maxFileSizeMB <= 0 {
		maxFileSizeMB = DefaultMaxFileSizeMB
	}
	w := &Writer{root: root, prefix: filepath.Base(base), keep: maxFiles, max: int64(maxFileSizeMB) << 20}
	w.index = w.newest()
	w.open()
	return w, nil
}

// newest returns the highest number of the files that are there, or 0.
func (w *Writer) newest() int {
	dir, err := w.root.Open(".")
	if err != nil {
		return 0
	}
	defer func() { _ = dir.Close() }() // only read from
	names, _ := dir.Readdirnames(-1)   // what could be read counts
	high := 0
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, w.prefix+".")
		if n, err := strconv.Atoi(rest); ok && err == nil && strconv.Itoa(n) == rest {
			high = max(high, n)
		}
	}
	return high
}

func (w *Writer) name(index int) string { return w.prefix + "." + strconv.Itoa(index) }

// open opens the file of the current number; w.file stays nil where that fails.
func (w *Writer) open() {
	w.shut()
	name := w.name(w.index)
	if st, err := w.root.Lstat(name); err == nil && !st.Mode().IsRegular() {
		// A link, pipe or device lies where the log belongs: take the name
		// back, never what it leads to.
		_ = w.root.Remove(name) // the open tells
	}
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return
	}
	w.file, w.size = f, 0
	if st, err := f.Stat(); err == nil {
		w.size = st.Size()
	}
}

func (w *Writer) shut() {
	if w.file != nil {
		_ = w.file.Close() // every write told its own error
		w.file = nil
	}
}

// Write keeps p, rotating where a file is full. It always returns len(p), nil.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	total := len(p)
	for len(p) > 0 {
		if w.size >= w.max {
			w.rotate()
		}
		if w.file == nil {
			w.open()
		}
		if w.file == nil {
			break
		}
		n, err := w.file.Write(p[:min(int64(len(p)), w.max-w.size)])
		w.size += int64(n)
		p = p[n:]
		if err != nil {
			w.shut() // it may be the file that is broken: the next write tries anew
			break
		}
	}
	w.dropped += uint64(len(p))
	return total, nil
}

func (w *Writer) rotate() {
	w.index++
	w.open()
	for old := w.index - w.keep; old >= 0; old-- {
		if w.root.Remove(w.name(old)) != nil {
			break // the older ones went when their turn came
		}
	}
}

// Dropped returns how many bytes could not be kept.
func (w *Writer) Dropped() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

// Close closes the file; writes after it are dropped.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut()
	return w.root.Close()
}
