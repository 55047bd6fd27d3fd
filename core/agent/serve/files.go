// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	pieceSize = 64 << 10
	// pollEvery is the interval at which a followed file is read even without a
	// notification, and heartbeatEvery the interval of heartbeats in a silent stream.
	pollEvery      = 100 * time.Millisecond
	heartbeatEvery = time.Second
)

func (s *Server) fileCall(ctx context.Context, method string, q rpc.FileRequest, send func([]byte) error) error {
	r, err := s.cfg.Allocs.Runner(q.AllocID)
	if err != nil {
		return err
	}
	dir := r.Dir()
	switch method {
	case rpc.MethodListFiles:
		entries, err := dir.List(q.Path)
		if err != nil {
			return err
		}
		return sendJSON(send, entries)
	case rpc.MethodStatFile:
		info, err := dir.Stat(q.Path)
		if err != nil {
			return err
		}
		return sendJSON(send, info)
	case rpc.MethodReadFile:
		return readFile(ctx, dir, q, send)
	}
	return streamFile(ctx, dir, q, frames(send))
}

// openFile opens a file, not a folder.
func openFile(dir allocdir.Dir, name string) (*os.File, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		f.Close()
		return nil, errdefs.InvalidArgumentf("file %q is a directory", name)
	}
	return f, nil
}

func readFile(ctx context.Context, dir allocdir.Dir, q rpc.FileRequest, send func([]byte) error) error {
	if q.Offset < 0 {
		return errdefs.InvalidArgumentf("offset must not be negative")
	}
	f, err := openFile(dir, q.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	limit := q.Limit
	if limit < 0 {
		limit = 1<<63 - 1 - q.Offset
	}
	src := io.NewSectionReader(f, q.Offset, limit)
	for ctx.Err() == nil {
		// The receiver keeps the pieces, so each needs a buffer of its own.
		buf := make([]byte, pieceSize)
		n, err := src.Read(buf)
		if n > 0 {
			if err := send(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %q: %w", q.Path, err)
		}
	}
	return ctx.Err()
}

func streamFile(ctx context.Context, dir allocdir.Dir, q rpc.FileRequest, send func(*model.StreamFrame) error) error {
	f, err := openFile(dir, q.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("stat %q: %w", q.Path, err)
	}
	s := newStreamer(ctx, send)
	defer s.wake.close()
	if q.Follow {
		s.wake.add(f)
	}
	at := q.Offset
	if q.Origin == "end" {
		at = max(0, info.Size()-q.Offset)
	}
	for {
		if at, err = s.copy(f, q.Path, at); err != nil {
			return err
		}
		if !q.Follow {
			return nil
		}
		if err := s.idle(); err != nil {
			return endOfFollow(ctx, err)
		}
		if info, err = f.Stat(); err == nil && info.Size() < at {
			at = 0
			if err := s.put(&model.StreamFrame{File: q.Path, FileEvent: "file truncated"}); err != nil {
				return err
			}
		}
		if now, err := dir.Stat(q.Path); errdefs.IsNotFound(err) || err == nil && now.Size < at {
			return s.put(&model.StreamFrame{File: q.Path, FileEvent: "file deleted"})
		}
	}
}

// endOfFollow: a stream that is followed ends when its reader goes.
func endOfFollow(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// streamer sends pieces of files as frames, and heartbeats in silence.
type streamer struct {
	ctx      context.Context
	send     func(*model.StreamFrame) error
	wake     *waker
	lastSent time.Time
}

func newStreamer(ctx context.Context, send func(*model.StreamFrame) error) *streamer {
	return &streamer{ctx: ctx, send: send, wake: newWaker(), lastSent: time.Now()}
}

func (s *streamer) put(f *model.StreamFrame) error {
	s.lastSent = time.Now()
	return s.send(f)
}

// copy sends a file from an offset to its end and returns where that is.
func (s *streamer) copy(f *os.File, name string, at int64) (int64, error) {
	for s.ctx.Err() == nil {
		buf := make([]byte, pieceSize)
		n, err := f.ReadAt(buf, at)
		if n > 0 {
			if err := s.put(&model.StreamFrame{Offset: at + int64(n), Data: buf[:n], File: name}); err != nil {
				return at, err
			}
			at += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return at, nil
		}
		if err != nil {
			return at, fmt.Errorf("read %q: %w", name, err)
		}
	}
	return at, s.ctx.Err()
}

// idle waits before the next look, with a heartbeat if it is due.
func (s *streamer) idle() error {
	if err := s.wake.sleep(s.ctx, pollEvery); err != nil {
		return err
	}
	if time.Since(s.lastSent) < heartbeatEvery {
		return nil
	}
	return s.put(&model.StreamFrame{})
}
