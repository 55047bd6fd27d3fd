// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package supervisor

import (
	"fmt"
	"os"
	"sync"
)

// logWriter writes one output of a task into its rotated files. It never fails:
// what cannot be written is counted and dropped.
type logWriter struct {
	mu      sync.Mutex
	root    *os.Root // the log directory; links that lead out of it are refused
	prefix  string
	keep    int
	max     int64
	index   int
	size    int64
	file    *os.File
	dropped uint64
}

func newLogWriter(root *os.Root, prefix string, l Logs) *logWriter {
	w := &logWriter{root: root, prefix: prefix, keep: max(l.MaxFiles, 1), max: l.MaxFileBytes}
	if w.max <= 0 {
		w.max = 10 << 20
	}
	for {
		if _, err := root.Lstat(w.name(w.index + 1)); err != nil {
			break
		}
		w.index++
	}
	w.open()
	return w
}

func (w *logWriter) name(index int) string { return fmt.Sprintf("%s.%d", w.prefix, index) }

func (w *logWriter) open() {
	if w.file != nil {
		_ = w.file.Close() // every write told its own error
		w.file = nil
	}
	f, err := w.root.OpenFile(w.name(w.index), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return
	}
	w.file, w.size = f, 0
	if st, err := f.Stat(); err == nil {
		w.size = st.Size()
	}
}

func (w *logWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	total := len(p)
	for len(p) > 0 {
		if w.size >= w.max {
			w.index++
			w.open()
			_ = w.root.Remove(w.name(w.index - w.keep)) // the first ones have none to remove
		}
		if w.file == nil {
			if w.open(); w.file == nil {
				w.dropped += uint64(len(p))
				return total, nil
			}
			continue
		}
		n, err := w.file.Write(p[:min(int64(len(p)), w.max-w.size)])
		w.size += int64(n)
		p = p[n:]
		if err != nil {
			w.dropped += uint64(len(p))
			return total, nil
		}
	}
	return total, nil
}

func (w *logWriter) droppedBytes() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

func (w *logWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file != nil {
		_ = w.file.Close() // every write told its own error
		w.file = nil
	}
}
