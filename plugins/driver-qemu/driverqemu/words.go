// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// words are what QEMU writes to a task's stderr from some moment on. The file is
// looked up beneath the alloc's directory: tasks can write there.
type words struct {
	root, stem string
	index      int   // of the newest file at that moment, -1 for none
	size       int64 // that it had
}

// maxWords bounds what is told of them: the end counts.
const maxWords = 2000

func openWords(task *driver.TaskConfig) words {
	w := words{root: task.AllocDir, index: -1}
	stem, err := filepath.Rel(task.AllocDir, task.Logs.StderrPath)
	if err != nil || task.Logs.Disabled {
		return w
	}
	w.stem = stem
	root, err := os.OpenRoot(w.root)
	if err != nil {
		return w
	}
	defer root.Close()
	for i := 0; ; i++ {
		st, err := root.Stat(w.name(i))
		if err != nil {
			// The oldest files may be gone already.
			if !errors.Is(err, os.ErrNotExist) || w.index >= 0 || i > task.Logs.MaxFiles {
				return w
			}
			continue
		}
		w.index, w.size = i, st.Size()
	}
}

func (w words) name(i int) string { return fmt.Sprintf("%s.%d", w.stem, i) }

// since returns what was written, to be put behind a message; "" for nothing.
func (w words) since() string {
	if w.stem == "" {
		return ""
	}
	root, err := os.OpenRoot(w.root)
	if err != nil {
		return ""
	}
	defer root.Close()
	// It does not wait should a task have put a pipe there.
	f, err := root.OpenFile(w.name(max(w.index, 0)), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Size() <= w.size {
		return ""
	}
	body := make([]byte, min(st.Size()-w.size, maxWords))
	n, err := f.ReadAt(body, st.Size()-int64(len(body)))
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	return ": " + strings.TrimSpace(string(body[:n]))
}
