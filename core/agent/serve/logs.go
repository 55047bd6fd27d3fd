// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"context"
	"os"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// streamLogs streams a task's output across its rotated files.
func (s *Server) streamLogs(ctx context.Context, q rpc.LogRequest, send func(*model.StreamFrame) error) error {
	r, err := s.cfg.Allocs.Runner(q.AllocID)
	if err != nil {
		return err
	}
	if !r.HasTask(q.Task) {
		return errdefs.InvalidArgumentf("unknown task name %q", q.Task)
	}
	if q.Type != "stdout" && q.Type != "stderr" {
		return errdefs.InvalidArgumentf("log type %q is unknown; use stdout or stderr", q.Type)
	}
	stream := newStreamer(ctx, send)
	defer stream.wake.close()
	err = readLogs(ctx, r, q, stream)
	if q.Follow {
		return endOfFollow(ctx, err)
	}
	return err
}

// readLogs reads the files, or asks the driver where there are none and it can.
func readLogs(ctx context.Context, r *alloc.Runner, q rpc.LogRequest, stream *streamer) error {
	find := func() (bool, error) {
		files, err := r.Dir().LogFiles(q.Task, q.Type)
		if errdefs.IsNotFound(err) {
			err = nil
		}
		return len(files) > 0, err
	}
	found, err := find()
	switch {
	case err != nil:
		return err
	case found:
	case r.DriverReadsLogs(q.Task):
		d := &daemonReader{runner: r, q: q, s: stream}
		if r.KeepsLogs(q.Task) {
			if found, err = d.awaitFiles(ctx, find); err != nil {
				return err
			}
		}
		if !found {
			return d.run(ctx)
		}
	case !r.KeepsLogs(q.Task):
		return errdefs.NotFoundf("task %q keeps no logs, since its logs block says disabled = true", q.Task)
	}
	reader := &logReader{dir: r.Dir(), q: q, s: stream}
	defer reader.close()
	return reader.run()
}

// logReader reads the files of one output. It keeps the current file open, so that a
// file that is rotated away is read to its end.
type logReader struct {
	dir allocdir.Dir
	q   rpc.LogRequest
	s   *streamer

	file   *os.File
	name   string
	num    int
	at     int64
	folder *os.File // folder of the logs, once it is watched for new files
}

func (l *logReader) close() {
	l.closeFile()
	if l.folder != nil {
		l.folder.Close()
	}
}

func (l *logReader) closeFile() {
	if l.file != nil {
		l.s.wake.drop(l.file)
		l.file.Close()
	}
}

// watchFolder subscribes to new files; before the first task starts the directory does
// not exist.
func (l *logReader) watchFolder() {
	if l.folder != nil {
		return
	}
	folder, err := l.dir.Open(allocdir.SharedDir + "/" + allocdir.LogsDir)
	if err != nil {
		return // the reader looks for files at intervals, too
	}
	l.folder = folder
	l.s.wake.add(folder)
}

func (l *logReader) run() error {
	if err := l.begin(); err != nil {
		return err
	}
	for {
		if l.q.Follow {
			l.watchFolder() // watch before reading, so that no file is missed in between
		}
		if err := l.drain(); err != nil {
			return err
		}
		moved, err := l.next()
		if err != nil {
			return err
		}
		if moved {
			continue
		}
		if !l.q.Follow {
			return nil
		}
		if err := l.s.idle(); err != nil {
			return err
		}
	}
}

// begin finds the file and the offset to begin at.
func (l *logReader) begin() error {
	l.num = -1
	files, err := l.dir.LogFiles(l.q.Task, l.q.Type)
	if err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	skip := l.q.Offset
	if l.q.Origin == "end" {
		total := int64(0)
		for _, f := range files {
			total += f.Size
		}
		skip = max(0, total-l.q.Offset)
	}
	for i, f := range files {
		if skip <= f.Size || i == len(files)-1 {
			return l.open(f, min(skip, f.Size))
		}
		skip -= f.Size
	}
	return nil
}

func (l *logReader) open(f allocdir.LogFile, at int64) error {
	file, err := l.dir.Open(f.Name)
	if errdefs.IsNotFound(err) {
		return nil // rotated away meanwhile: read the next file
	}
	if err != nil {
		return err
	}
	l.closeFile()
	l.file, l.name, l.num, l.at = file, f.Name, f.Num, at
	if l.q.Follow {
		l.s.wake.add(file)
	}
	return nil
}

// drain sends the rest of the current file.
func (l *logReader) drain() error {
	if l.file == nil {
		return nil
	}
	at, err := l.s.copy(l.file, l.name, l.at)
	l.at = at
	return err
}

// next moves to the following file, if there is one, after reading the current one to
// its end.
func (l *logReader) next() (bool, error) {
	files, err := l.dir.LogFiles(l.q.Task, l.q.Type)
	if err != nil && !errdefs.IsNotFound(err) {
		return false, err
	}
	for _, f := range files {
		if f.Num <= l.num {
			continue
		}
		if err := l.drain(); err != nil {
			return false, err
		}
		before := l.num
		if err := l.open(f, 0); err != nil {
			return false, err
		}
		return l.num != before, nil
	}
	return false, nil
}
