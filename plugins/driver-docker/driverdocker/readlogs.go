// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"sync/atomic"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// ReadLogs implements driver.LogReader: the daemon keeps the output of a container if its log
// driver can be read back, as json-file, local and journald can.
func (d *Driver) ReadLogs(ctx context.Context, id string, q driver.LogQuery, send func(driver.LogPiece) error) error {
	t, err := d.of(id)
	if err != nil {
		return err
	}
	if q.Follow {
		defer t.followed()()
	}
	skip := q.Offset
	if q.FromEnd {
		// The daemon counts lines of both outputs, not bytes of one: read it twice.
		total := int64(0)
		count := reading{t: t, stream: q.Stream, take: func(text []byte) error { total += int64(len(text)); return nil }}
		if err := count.all(ctx, false); err != nil {
			return wrapTask(id, err)
		}
		skip = max(0, total-q.Offset)
	}
	at := int64(0)
	r := reading{t: t, stream: q.Stream, take: func(text []byte) error {
		from := min(max(0, skip-at), int64(len(text)))
		p := driver.LogPiece{Offset: at + from, Data: text[from:]}
		at += int64(len(text))
		if len(p.Data) == 0 {
			return nil
		}
		if err := send(p); err != nil {
			return &refusedPiece{err}
		}
		return nil
	}}
	err = r.all(ctx, q.Follow)
	var refused *refusedPiece
	if errors.As(err, &refused) {
		return refused.err
	}
	if err == nil {
		return nil
	}
	if _, gone := d.of(id); gone != nil && ctx.Err() == nil {
		return errors.Join(gone, err) // the daemon's words for a container that goes are many
	}
	return wrapTask(id, err)
}

// followed counts a reader that follows the output, until the returned function is called.
func (t *task) followed() (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followers++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.followers--; t.followers == 0 && t.unfollowed != nil {
			close(t.unfollowed)
			t.unfollowed = nil
		}
	}
}

// followGrace is how long the container of an ended task is kept for those who follow its
// output: a daemon may need until silent to give them the end of it.
const followGrace = silent + logGrace

// drainFollowers waits until those who follow the output of the ended task have read it to
// its end.
func (t *task) drainFollowers(ctx context.Context) {
	t.mu.Lock()
	if t.followers == 0 {
		t.mu.Unlock()
		return
	}
	if t.unfollowed == nil {
		t.unfollowed = make(chan struct{})
	}
	unfollowed := t.unfollowed
	t.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, followGrace)
	defer cancel()
	select {
	case <-unfollowed:
	case <-limited.Done(): // one who does not take what it is sent holds up nothing
	}
}

// refusedPiece is an error of the reader, as opposed to an error of the daemon.
type refusedPiece struct{ err error }

func (r *refusedPiece) Error() string { return r.err.Error() }

// reading reads one output of a container from its beginning.
type reading struct {
	t      *task
	stream driver.LogStream
	take   func(text []byte) error
	// The newest message that was taken, and how many with its time. A stream that is opened
	// again repeats them.
	last int64
	seen int
	line []byte // that message, if it is a whole line
}

var newline = []byte{'\n'}

// all reads to the current end of the output; with follow, until the task has ended.
func (r *reading) all(ctx context.Context, follow bool) error {
	for {
		over := !follow || r.t.result() != nil // before the output: a task that ends later may still write
		err := r.once(ctx, !over)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if over || err != nil {
			return err
		}
		select {
		case <-r.t.ended:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(logsBackoffMin):
		}
	}
}

// once reads one stream of the daemon.
func (r *reading) once(ctx context.Context, follow bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	patience := time.AfterFunc(callLimit, cancel)
	query := url.Values{string(r.stream): {"1"}, "timestamps": {"1"}}
	if follow {
		query.Set("follow", "1")
	}
	if r.last > 0 {
		query.Set("since", fmt.Sprintf("%d.%09d", r.last/int64(time.Second), r.last%int64(time.Second)))
	}
	what := "read the output of container " + short(r.t.state.Container)
	s, err := r.t.d.open(ctx, "containers/"+r.t.state.Container+"/logs", query)
	if err != nil {
		return unreadable(r.t.d.failed(context.WithoutCancel(ctx), err, "%s", what))
	}
	if !patience.Stop() {
		_ = s.Close()
		return errdefs.Unavailablef("%s: the Docker daemon does not answer", what)
	}
	defer s.Close()
	return r.messages(ctx, s, follow, what)
}

// messages reads the messages of a stream. Like the copier, it ends a stream that has
// fallen silent after much output, or after the end of the task, because the daemon may
// have lost its position.
func (r *reading) messages(ctx context.Context, s *stream, follow bool, what string) error {
	var hushed atomic.Bool
	quiet := time.AfterFunc(time.Hour, func() {
		hushed.Store(true)
		_ = s.Close() // next reports it
	})
	defer quiet.Stop()
	if follow {
		done := make(chan struct{})
		defer close(done)
		go func() {
			select {
			case <-r.t.ended:
				quiet.Reset(silent)
			case <-done:
			}
		}()
	}
	messages := newMessageReader(s, r.t.state.TTY)
	skip := r.seen
	for sent := 0; ; {
		m, err := messages.next()
		if errors.Is(err, io.EOF) || err != nil && hushed.Load() {
			return nil
		}
		if err != nil {
			return r.t.d.failed(context.WithoutCancel(ctx), err, "%s", what)
		}
		if m.time < r.last {
			skip = r.seen // it is sent once more, as those with the newest time will be
			continue
		}
		if m.time == r.last && skip > 0 {
			skip--
			continue
		}
		if follow && m.time == r.last && bytes.Equal(m.text, r.line) {
			continue // a daemon that rotates its file repeats the last line of the old one
		}
		if m.time != r.last {
			r.last, r.seen, skip = m.time, 0, 0
		}
		r.seen++
		if err := r.take(m.text); err != nil {
			return err
		}
		r.line = r.line[:0]
		if follow && bytes.HasSuffix(m.text, newline) { // parts of a long line may be equal
			r.line = append(r.line, m.text...)
		}
		if sent += len(m.text); follow && sent >= burst {
			quiet.Reset(silent)
		}
	}
}

// unreadable explains the daemon's refusal to return output that it does not keep.
func unreadable(err error) error {
	switch errdefs.ClassOf(err) {
	case errdefs.Unimplemented, errdefs.InvalidArgument:
		return errdefs.FailedPreconditionf("the log driver of the task's container cannot be read back; use json-file, local or journald in config.logging, or collect the output in files: %w", err)
	case errdefs.Conflict: // the container is being removed
		return errdefs.New(errdefs.NotFound, err)
	}
	return err
}
