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

// words is a position in a task's stderr from which QEMU's messages are read. Files
// are opened relative to the alloc's directory without leaving it, because tasks can
// write there.
type words struct {
	root, stem string
	index      int   // index of the newest file at that moment; -1 if there was none
	size       int64 // size of that file
}

// maxWords is the number of bytes quoted of the messages. The end is kept.
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
			// The oldest files may have been deleted.
			if !errors.Is(err, os.ErrNotExist) || w.index >= 0 || i > task.Logs.MaxFiles {
				return w
			}
			continue
		}
		w.index, w.size = i, st.Size()
	}
}

func (w words) name(i int) string { return fmt.Sprintf("%s.%d", w.stem, i) }

// since returns what was written since, formatted to follow a message; "" if nothing
// was.
func (w words) since() string {
	if w.stem == "" {
		return ""
	}
	root, err := os.OpenRoot(w.root)
	if err != nil {
		return ""
	}
	defer root.Close()
	// O_NONBLOCK, in case a task has created a FIFO there.
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
