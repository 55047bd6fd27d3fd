// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"io"
	"os"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// archiveReader reads the archive of an image and reports how much of it has been read.
type archiveReader struct {
	io.Reader
	tell func(driver.Progress)
	now  driver.Progress
	due  time.Time
}

// reading returns a reader of the archive for a task.
func (b *broadcast) reading(f *os.File, taskID string) io.Reader {
	r := &archiveReader{Reader: f, tell: func(p driver.Progress) { b.progress(taskID, p) }, now: driver.Progress{Phase: "Loading image", Unit: driver.UnitBytes}}
	if info, err := f.Stat(); err == nil { // otherwise the size is not known
		r.now.Total = info.Size()
	}
	return r
}

func (r *archiveReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.now.Done += int64(n)
	if now := time.Now(); now.After(r.due) || err != nil {
		r.due = now.Add(liveProgress)
		r.tell(r.now)
	}
	return n, err
}
