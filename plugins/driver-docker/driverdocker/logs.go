// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"bytes"
	"cmp"
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

// logsOf returns where the task's output is written.
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
	// flushAt is the number of bytes that are buffered at most. Output is also written
	// as soon as the daemon has sent everything it has.
	flushAt = 64 << 10
	// A daemon may lose its position when it rotates a log file that is being read, and
	// then sends nothing more. So a stream that has sent enough to cause a rotation and
	// then falls silent is reopened. Nothing is copied twice.
	burst  = 256 << 10
	silent = 3 * time.Second
	// slack is the largest time by which messages of the two outputs may be out of
	// order.
	slack = 10 * time.Second
)

// copyLogs copies the container's output from the daemon to the task's log files,
// until the task has ended and everything is copied, or ctx ends. It continues where
// the previous copy stopped. It calls opened once it has opened the files or failed to.
func (t *task) copyLogs(ctx context.Context, stateDir string, opened func()) {
	if t.state.Logs.Disabled {
		opened()
		return
	}
	c, err := openCopier(ctx, t, stateDir)
	opened()
	if err != nil && ctx.Err() != nil {
		return
	}
	if err != nil {
		t.d.log.Error("the output of a task is not kept", "task_id", t.id, "error", err)
		return
	}
	defer c.close()
	for wait := logsBackoffMin; ; wait = min(2*wait, logsBackoffMax) {
		// This is read before the output: a task that ends later may still write output.
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
			wait = logsBackoffMin // the stream has ended, so the task will end soon
		}
		select {
		case <-ctx.Done():
			return
		case <-t.ended:
			if over && !pause(ctx, wait) { // t.ended stays closed, so it no longer delays the next attempt
				return
			}
		case <-time.After(wait):
		}
	}
}

// copier copies the output of one container.
type copier struct {
	t       *task
	dir     *os.Root
	out     [2]*output // standard output, standard error
	cursor  *os.File
	copied  uint64
	pending int
	told    uint64    // dropped bytes when the user was last told of some
	toldAt  time.Time // zero if the user was not told yet
}

// output is stdout or stderr.
type output struct {
	w    *tasklog.Writer
	mark mark
	// A new stream repeats messages. While behind is true, messages are before the mark
	// and were copied earlier. Then skipSeen messages with the time of the mark are
	// skipped, and then skipBytes bytes that the files already contain.
	behind    bool
	skipSeen  uint32
	skipBytes int64
	// messages skipped because of skipSeen, kept in case the daemon has fewer of them
	held     [][]byte
	heldSize int
	buf      []byte
	repeats  repeats
}

// openCopier waits until no other process copies this output, and then reads the
// mark.
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
			if t.recovered { // the best guess
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
		_ = c.dir.Close() // the directory was only read
	}
	_ = c.cursor.Close() // every write was checked; closing releases the lock
}

// since returns the time from which on the output must be requested.
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
	if !follow { // without follow the stream must end
		limit := time.AfterFunc(workLimit, cancel)
		defer limit.Stop()
	}
	return c.read(ctx, r)
}

// begin prepares for a stream that repeats messages.
func (o *output) begin() {
	o.behind, o.skipSeen, o.skipBytes, o.buf = true, o.mark.seen, o.w.Since(o.mark.at), o.buf[:0]
	o.held, o.heldSize = nil, 0
}

// read copies the messages of a stream.
func (c *copier) read(ctx context.Context, r *stream) error {
	var hushed atomic.Bool
	quiet := time.AfterFunc(time.Hour, func() {
		hushed.Store(true)
		_ = r.Close() // read errors are reported by next
	})
	defer quiet.Stop()
	// If the stream continues after the task has ended, it has lost its position too.
	c.t.atEnd(func() { quiet.Reset(silent) })
	defer c.t.atEnd(nil)
	messages := newMessageReader(r, c.t.state.TTY)
	for sent := 0; ; {
		m, err := messages.next()
		if err != nil {
			over := errors.Is(err, io.EOF) || hushed.Load()
			if over { // the rest has not been sent yet
				c.unhold(c.out[:]...)
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

// hopeless reports whether the output can never be read: the container is gone, or
// its log driver does not support reading.
func (c *copier) hopeless(err error) bool {
	switch errdefs.ClassOf(err) {
	case errdefs.NotFound, errdefs.Conflict: // the container is gone or being removed
		return true
	case errdefs.Unimplemented, errdefs.InvalidArgument:
		c.t.d.log.Warn("the output of a task is not kept: the log driver of its container cannot be read", "task_id", c.t.id, "error", err)
		c.t.d.events.tell(c.t.id, "The task's output is not collected: the log driver in its config cannot be read back", nil)
		return true
	}
	return false
}

// take accepts a message unless it was copied before.
func (c *copier) take(m message) {
	o := c.out[m.output]
	if !o.behind && m.time < o.mark.time && o.repeats.began(m.time, o.mark.time) ||
		o.skipSeen == 0 && m.time == o.mark.time && o.repeats.again(m) {
		o.behind, o.skipSeen, o.held, o.heldSize = true, o.mark.seen, nil, 0
	}
	if o.behind && m.time < o.mark.time {
		return
	}
	if o.behind && o.skipSeen > 0 {
		if m.time == o.mark.time {
			o.hold(m.text)
			return
		}
		c.unhold(o)
	}
	// Everything after this message is new, even if the clock was set back.
	o.behind, o.held = false, nil
	if m.time != o.mark.time {
		o.mark.time, o.mark.seen = m.time, 0
	}
	o.mark.seen++
	c.add(o, m.text)
	o.repeats.note(m, o.mark.sum)
}

// add appends a message to the output, without the bytes that the file already
// contains.
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

// maxHeld is the number of bytes of held messages. A daemon keeps less per container
// by default.
const maxHeld = 4 << 20

func (o *output) hold(text []byte) {
	o.skipSeen--
	if o.heldSize += len(text); o.heldSize <= maxHeld {
		o.held = append(o.held, bytes.Clone(text))
	}
	if o.skipSeen == 0 || o.heldSize > maxHeld {
		o.held = nil // all of them were copied before
	}
}

// unhold restores messages that were held by mistake. If a task writes more than the
// daemon keeps, the daemon discards old messages, so some of the held messages may
// be new. The new ones follow the message that was copied last. An output of which more may
// come is left alone: a daemon sends messages of the two in any order.
func (c *copier) unhold(outputs ...*output) {
	for _, o := range outputs {
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

// flush writes the buffered output to the files and then the new position to the
// cursor.
func (c *copier) flush() {
	if c.pending == 0 {
		return
	}
	c.pending = 0
	var dropped uint64
	var why error
	for _, o := range c.out {
		if len(o.buf) > 0 {
			_, _ = o.w.Write(o.buf) // Write never fails: it counts what it drops
			if o.buf = o.buf[:0]; cap(o.buf) > flushAt {
				o.buf = nil
			}
		}
		if o.skipBytes == 0 {
			o.mark.at = o.w.Position()
		}
		dropped += o.w.Dropped()
		why = cmp.Or(o.w.Failure(), why)
	}
	c.save()
	c.tellDropped(dropped, why)
	c.t.mu.Lock()
	c.t.dropped = dropped
	c.t.mu.Unlock()
}

// tellEvery is the least time between two events about dropped output of a task.
const tellEvery = time.Minute

// tellDropped tells the user that output is dropped, and again while that goes on.
func (c *copier) tellDropped(dropped uint64, why error) {
	if dropped <= c.told || !c.toldAt.IsZero() && time.Since(c.toldAt) < tellEvery {
		return
	}
	c.told, c.toldAt = dropped, time.Now()
	c.t.d.events.tell(c.t.id, fmt.Sprintf("output is dropped, since its log file cannot be written: %v; the disk of the log files must have room, and tasks must leave the folder alloc/logs as it is", why),
		map[string]string{"dropped_log_bytes": fmt.Sprint(dropped)})
}

func (c *copier) save() {
	if err := writeCursor(c.cursor, [2]mark{c.out[0].mark, c.out[1].mark}); err != nil {
		c.t.d.log.Warn("cannot store the position in a container's output; some of it may be duplicated after a restart", "task_id", c.t.id, "error", err)
	}
}

// drainLogs waits until all output of an ended task is in its log files.
func (t *task) drainLogs(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	select {
	case <-t.logged:
	case <-limited.Done():
		t.d.log.Warn("the last output of a task may be missing: the Docker daemon did not return it", "task_id", t.id)
	}
}

const drainLimit = 10 * time.Second
