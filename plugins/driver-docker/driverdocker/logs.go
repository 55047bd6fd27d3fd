// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/tasklog"
)

// logsOf says where the task's output goes.
func logsOf(task *driver.TaskConfig, agent agentConfig) logsTarget {
	return logsTarget{
		Disabled: task.Logs.Disabled || agent.DisableLogCollection, Root: task.AllocDir,
		Stdout: task.Logs.StdoutPath, Stderr: task.Logs.StderrPath,
		MaxFiles: task.Logs.MaxFiles, MaxFileBytes: int64(task.Logs.MaxFileSizeMB) * mib,
	}
}

const (
	logsBackoffMin = 100 * time.Millisecond
	logsBackoffMax = 10 * time.Second
	// flushAt is how much output is held back at most; what the daemon has sent
	// is written as soon as it sends no more.
	flushAt = 64 << 10
	// A daemon may lose its place when it rotates its own files while it is read,
	// and then sends nothing more. So a stream that has sent as much as makes it
	// rotate, and falls silent, is opened again; nothing is read twice by that.
	burst  = 256 << 10
	silent = 3 * time.Second
	// slack is by how much the two outputs of a container may be out of order.
	slack = 10 * time.Second
)

// copyLogs reads the container's output from the daemon and writes it to the
// task's files until the task has ended and all is written, or ctx ends. Where
// it ended before, it goes on.
func (t *task) copyLogs(ctx context.Context, stateDir string) {
	if t.state.Logs.Disabled {
		return
	}
	c, err := openCopier(ctx, t, stateDir)
	if err != nil && ctx.Err() != nil {
		return
	}
	if err != nil {
		t.d.log.Error("the output of a task is not kept", "task_id", t.id, "error", err)
		return
	}
	defer c.close()
	for wait := logsBackoffMin; ; wait = min(2*wait, logsBackoffMax) {
		// Whether it had ended is asked before the output: else the end of the
		// output may not be all of it.
		over := t.result() != nil
		before := c.copied
		err := c.stream(ctx, !over)
		if ctx.Err() != nil {
			return
		}
		if c.copied > before {
			wait = logsBackoffMin
		}
		if over && err == nil || c.hopeless(err) {
			return
		}
		if err != nil && !errdefs.IsUnavailable(err) {
			t.d.log.Warn("the output of a container cannot be read; it is tried again", "task_id", t.id, "error", err)
		}
		if err == nil {
			wait = logsBackoffMin // the stream ended: so does the task, in a moment
		}
		select {
		case <-ctx.Done():
			return
		case <-t.ended:
			if over && !pause(ctx, wait) { // an end is no reason to ask without pause
				return
			}
		case <-time.After(wait):
		}
	}
}

// copier writes the output of one container.
type copier struct {
	t       *task
	dir     *os.Root
	out     [2]*output // standard output, standard error
	cursor  *os.File
	copied  uint64
	pending int
}

// output is one of the two.
type output struct {
	w    *tasklog.Writer
	mark mark
	// While the stream is behind the mark, what it says was copied before. Then
	// come skipSeen messages of the mark's own time, and then skipBytes that are
	// in the files already.
	behind    bool
	skipSeen  uint32
	skipBytes int64
	// held are the messages skipped by skipSeen, in case they are fewer.
	held     [][]byte
	heldSize int
	buf      []byte
}

// openCopier waits for whoever else copies this output, and only then looks how
// far it is.
func openCopier(ctx context.Context, t *task, stateDir string) (*copier, error) {
	l := t.state.Logs
	cursor, err := lockCursor(ctx, stateDir, t.state.Container)
	if err != nil {
		return nil, err
	}
	c := &copier{t: t, cursor: cursor}
	marks, known, err := readCursor(cursor)
	if err == nil {
		c.dir, err = tasklog.OpenDir(l.Root, filepath.Dir(l.Stdout))
	}
	if err != nil {
		c.close()
		return nil, err
	}
	limits := tasklog.Limits{MaxFiles: l.MaxFiles, MaxFileBytes: l.MaxFileBytes}
	for i, path := range []string{l.Stdout, l.Stderr} {
		o := &output{w: tasklog.New(c.dir, filepath.Base(path), limits), mark: marks[i]}
		if !known {
			o.mark = mark{at: o.w.Position()}
			if t.recovered { // as well as it can be known
				o.mark.time = o.w.Written().UnixNano()
			}
		}
		c.out[i] = o
	}
	c.save()
	return c, nil
}

func (c *copier) close() {
	for _, o := range c.out {
		if o != nil {
			o.w.Close()
		}
	}
	if c.dir != nil {
		_ = c.dir.Close() // only read from
	}
	_ = c.cursor.Close() // every write told its own error; the lock ends
}

// since is from when on the output is asked for: what the marks leave open.
func (c *copier) since() string {
	one, two := c.out[0].mark.time, c.out[1].mark.time
	from := min(max(one, two-int64(slack)), max(two, one-int64(slack)))
	if from <= 0 {
		return ""
	}
	return fmt.Sprintf("%d.%09d", from/int64(time.Second), from%int64(time.Second))
}

// stream copies until the daemon's stream ends.
func (c *copier) stream(ctx context.Context, follow bool) error {
	for _, o := range c.out {
		o.begin()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	patience := time.AfterFunc(callLimit, cancel)
	query := url.Values{"stdout": {"1"}, "stderr": {"1"}, "timestamps": {"1"}}
	if follow {
		query.Set("follow", "1")
	}
	if since := c.since(); since != "" {
		query.Set("since", since)
	}
	r, err := c.t.d.open(ctx, "containers/"+c.t.state.Container+"/logs", query)
	if err != nil {
		return c.t.d.failed(context.WithoutCancel(ctx), err, "read the output of container %s", short(c.t.state.Container))
	}
	if !patience.Stop() {
		_ = r.Close()
		return errdefs.Unavailablef("read the output of container %s: the Docker daemon does not answer", short(c.t.state.Container))
	}
	defer r.Close()
	if !follow { // nothing may wait for ever
		limit := time.AfterFunc(workLimit, cancel)
		defer limit.Stop()
	}
	return c.read(ctx, r)
}

// begin expects a stream that repeats what was copied before.
func (o *output) begin() {
	o.behind, o.skipSeen, o.skipBytes, o.buf = true, o.mark.seen, o.w.Since(o.mark.at), o.buf[:0]
	o.held, o.heldSize = nil, 0
}

// read copies what the daemon sends.
func (c *copier) read(ctx context.Context, r *stream) error {
	var hushed atomic.Bool
	quiet := time.AfterFunc(time.Hour, func() {
		hushed.Store(true)
		_ = r.Close() // the read tells
	})
	defer quiet.Stop()
	// A stream that goes on beyond its task's end has lost its place too.
	c.t.atEnd(func() { quiet.Reset(silent) })
	defer c.t.atEnd(nil)
	messages := newMessageReader(r, c.t.state.TTY)
	for sent := 0; ; {
		m, err := messages.next()
		if err != nil {
			over := errors.Is(err, io.EOF) || hushed.Load()
			if over { // else the rest is still to come
				c.unhold()
			}
			if c.flush(); over {
				return nil
			}
			return c.t.d.failed(context.WithoutCancel(ctx), err, "read the output of container %s", short(c.t.state.Container))
		}
		c.take(m)
		if sent += len(m.text); sent >= burst || c.t.result() != nil || c.out[m.output].skipSeen > 0 {
			quiet.Reset(silent)
		}
		if c.pending >= flushAt || !messages.more() && !r.more() {
			c.flush()
		}
	}
}

// hopeless: a container that is gone, or whose log driver gives nothing back.
func (c *copier) hopeless(err error) bool {
	switch errdefs.ClassOf(err) {
	case errdefs.NotFound, errdefs.Conflict: // gone, or being removed
		return true
	case errdefs.Unimplemented, errdefs.InvalidArgument:
		c.t.d.log.Warn("the output of a task is not kept: the log driver of its container cannot be read", "task_id", c.t.id, "error", err)
		c.t.d.events.tell(c.t.id, "The task's output is not collected: the log driver in its config cannot be read back", nil)
		return true
	}
	return false
}

// take takes over a message unless it was there already.
func (c *copier) take(m message) {
	o := c.out[m.output]
	if o.behind && m.time < o.mark.time {
		return
	}
	if o.behind && o.skipSeen > 0 {
		if m.time == o.mark.time {
			o.hold(m.text)
			return
		}
		c.unhold()
	}
	// From here on all is new, also where a clock was set back.
	o.behind, o.held = false, nil
	if m.time != o.mark.time {
		o.mark.time, o.mark.seen = m.time, 0
	}
	o.mark.seen++
	c.add(o, m.text)
}

// add adds a message to the output unless its bytes are in the file already.
func (c *copier) add(o *output, text []byte) {
	o.mark.sum = crc32.ChecksumIEEE(text)
	if o.skipBytes > 0 {
		n := min(o.skipBytes, int64(len(text)))
		o.skipBytes -= n
		o.mark.at.Offset += n
		text = text[n:]
	}
	o.buf = append(o.buf, text...)
	c.pending += len(text) + 1
	c.copied++
}

// maxHeld bounds what is held: more than a daemon keeps of a container by default.
const maxHeld = 4 << 20

func (o *output) hold(text []byte) {
	o.skipSeen--
	if o.heldSize += len(text); o.heldSize <= maxHeld {
		o.held = append(o.held, bytes.Clone(text))
	}
	if o.skipSeen == 0 || o.heldSize > maxHeld {
		o.held = nil // as many as were copied
	}
}

// unhold takes what was held by mistake: the daemon has thrown away some of the
// messages of that time, as it does when a task writes more than it keeps, so
// that among the fewer ones left there are new ones. They come after the one
// that was copied last.
func (c *copier) unhold() {
	for _, o := range c.out {
		if !o.behind || o.skipSeen == 0 || len(o.held) == 0 {
			continue
		}
		held, from := o.held, 0
		for i := len(held) - 1; i >= 0 && from == 0; i-- {
			if crc32.ChecksumIEEE(held[i]) == o.mark.sum {
				from = i + 1
			}
		}
		o.skipSeen, o.held, o.heldSize, o.mark.seen = 0, nil, 0, uint32(len(held))
		for _, text := range held[from:] {
			c.add(o, text)
		}
	}
}

// flush writes what was taken, and then how far that is.
func (c *copier) flush() {
	if c.pending == 0 {
		return
	}
	c.pending = 0
	var dropped uint64
	for _, o := range c.out {
		if len(o.buf) > 0 {
			_, _ = o.w.Write(o.buf) // never fails: it counts what it drops
			if o.buf = o.buf[:0]; cap(o.buf) > flushAt {
				o.buf = nil
			}
		}
		if o.skipBytes == 0 {
			o.mark.at = o.w.Position()
		}
		dropped += o.w.Dropped()
	}
	c.save()
	c.t.mu.Lock()
	c.t.dropped = dropped
	c.t.mu.Unlock()
}

func (c *copier) save() {
	if err := writeCursor(c.cursor, [2]mark{c.out[0].mark, c.out[1].mark}); err != nil {
		c.t.d.log.Warn("it cannot be kept how far output was read; some may come twice after a restart", "task_id", c.t.id, "error", err)
	}
}

// drainLogs waits until all output of an ended task is in its files.
func (t *task) drainLogs(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	select {
	case <-t.logged:
	case <-limited.Done():
		t.d.log.Warn("the last output of a task may be missing: the Docker daemon does not hand it out", "task_id", t.id)
	}
}

const drainLimit = 10 * time.Second
