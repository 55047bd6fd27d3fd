// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginrun

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
)

// tail reads the log files of one stream, in their order.
type tail struct {
	kind string
	path string // without the number of the file
	file int    // number of the file that is read
	at   int64  // position in it
	line []byte // the part of a line that has come
}

// tails reads the output of a task.
type tails struct {
	all   []*tail
	watch func(Event)
}

func newTails(logs driver.LogConfig, watch func(Event)) *tails {
	return &tails{all: []*tail{{kind: "stdout", path: logs.StdoutPath}, {kind: "stderr", path: logs.StderrPath}}, watch: watch}
}

// read reports the lines that have come since the last call, and whether anything came.
func (t *tails) read() (came bool) {
	for _, one := range t.all {
		for one.more(t.watch) {
			came = true
		}
	}
	return came
}

// A driver may still copy what a task wrote when it says that the task has ended. The
// output counts as complete once nothing has arrived for the time quiet. patience limits
// the wait, since a child of the task may continue to write.
const (
	readEvery = 100 * time.Millisecond
	quiet     = 500 * time.Millisecond
	patience  = 5 * time.Second
)

// end reports the rest of the output of a task that has ended, with last lines that have
// no end.
func (t *tails) end() {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	now := time.Now()
	for came, limit := now, now.Add(patience); now.Sub(came) < quiet && now.Before(limit); now = <-tick.C {
		if t.read() {
			came = now
		}
	}
	t.read()
	for _, one := range t.all {
		if len(one.line) > 0 {
			t.watch(Event{Time: time.Now(), Kind: one.kind, Text: string(one.line)})
		}
	}
}

// maxRead limits the size of one read, in bytes.
const maxRead = 256 << 10

// more reads on, and reports whether there may be more. A file that is gone, because the
// driver keeps only the newest ones, is passed over once there is a next one.
func (t *tail) more(watch func(Event)) bool {
	body, err := readAt(fmt.Sprintf("%s.%d", t.path, t.file), t.at)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	t.at += int64(len(body))
	t.line = append(t.line, body...)
	for {
		text, rest, whole := bytes.Cut(t.line, []byte("\n"))
		if !whole && len(t.line) < maxRead {
			break
		}
		watch(Event{Time: time.Now(), Kind: t.kind, Text: string(text)})
		t.line = rest
	}
	if len(body) > 0 {
		return true
	}
	if _, err := os.Lstat(fmt.Sprintf("%s.%d", t.path, t.file+1)); err != nil {
		return false
	}
	t.file, t.at = t.file+1, 0
	return true
}

// readAt reads a part of a regular file: the task may have put a link or a pipe there.
func readAt(path string, at int64) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the task's output: %w", err)
	}
	defer f.Close()
	body, err := io.ReadAll(io.NewSectionReader(f, at, maxRead))
	if err != nil {
		return nil, fmt.Errorf("read the task's output: %w", err)
	}
	return body, nil
}
