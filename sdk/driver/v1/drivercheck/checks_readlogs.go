// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// readLogsChecks are the rules of driver.LogReader.
var readLogsChecks = []Check{
	{"read-logs", "output of a task without log files is read back, each of the two alone, from an offset at either end, and followed until the task ends, also by a new process", has(driver.FeatureReadLogs), checkReadLogs},
}

// reader collects what ReadLogs sends.
type reader struct {
	mu  sync.Mutex
	buf bytes.Buffer
	gap bool // a piece does not begin where the previous one ended
	at  int64
}

func (r *reader) send(p driver.LogPiece) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.buf.Len() > 0 && p.Offset != r.at {
		r.gap = true
	}
	r.at = p.Offset + int64(len(p.Data))
	r.buf.Write(p.Data)
	return nil
}

func (r *reader) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

// kept returns what ReadLogs sends without Follow. It skips the check if the driver, with
// this config, cannot read the output of the task.
func (b *bench) kept(id string, q driver.LogQuery) (string, *reader) {
	r := &reader{}
	err := b.d.(driver.LogReader).ReadLogs(b.ctx, id, q, r.send)
	if errdefs.IsFailedPrecondition(err) {
		b.t.Skipf("the output of tasks cannot be read with this config: %v", err)
	}
	if err != nil {
		b.t.Fatalf("ReadLogs with %+v: %v", q, err)
	}
	return r.text(), r
}

func checkReadLogs(b *bench) {
	config := b.task(`cd local 2>/dev/null || cd "$NOMAD_TASK_DIR"
echo one; echo aside >&2; echo two; while [ ! -e go ]; do sleep 0.05; done; echo three`)
	config.Logs.Disabled = true
	handle := b.startConfig(b.ctx, config)
	out := driver.LogQuery{Stream: driver.LogStdout}
	b.eventually("the output of the task is read back", func() bool { s, _ := b.kept(config.ID, out); return s == "one\ntwo\n" })
	b.eventually("the second output of the task is read back alone", func() bool {
		s, _ := b.kept(config.ID, driver.LogQuery{Stream: driver.LogStderr})
		return s == "aside\n"
	})
	for _, c := range []struct {
		q    driver.LogQuery
		want string
		at   int64 // where it begins
	}{
		{driver.LogQuery{Offset: 2}, "e\ntwo\n", 2}, {driver.LogQuery{Offset: 1000}, "", 0},
		{driver.LogQuery{Offset: 3, FromEnd: true}, "wo\n", 5}, {driver.LogQuery{Offset: 1000, FromEnd: true}, "one\ntwo\n", 0}, {driver.LogQuery{FromEnd: true}, "", 0},
	} {
		c.q.Stream = driver.LogStdout
		got, r := b.kept(config.ID, c.q)
		if got != c.want || got != "" && r.at-int64(len(got)) != c.at || r.gap {
			b.t.Errorf("%+v reads %q, which ends at %d, want %q from %d", c.q, got, r.at, c.want, c.at)
		}
	}
	b.reborn()
	if err := b.d.RecoverTask(b.ctx, handle); err != nil {
		b.t.Fatalf("RecoverTask: %v", err)
	}
	b.follows(config)
	b.refused("to read the output of an unknown task", b.d.(driver.LogReader).ReadLogs(b.ctx, "no-such-task", out, (&reader{}).send), errdefs.NotFound)
}

// follows checks that ReadLogs with Follow sends what the task prints until it ends, and
// that the reader can cancel.
func (b *bench) follows(config *driver.TaskConfig) {
	ctx, leave := context.WithCancel(b.ctx)
	defer leave()
	r, left := &reader{}, make(chan error, 1)
	followed := make(chan error, 1)
	q := driver.LogQuery{Stream: driver.LogStdout, Offset: 4, FromEnd: true, Follow: true}
	read := b.d.(driver.LogReader).ReadLogs
	go func() { left <- read(ctx, config.ID, q, (&reader{}).send) }()
	go func() { followed <- read(b.ctx, config.ID, q, r.send) }()
	b.eventually("a follower gets what there is", func() bool { return r.text() == "two\n" })
	leave()
	if err := b.answer(left, "a follower whose context has ended"); err == nil {
		b.t.Errorf("a follower whose context ended while the task ran was told that the output is over")
	}
	if err := os.WriteFile(filepath.Join(config.TaskDir, "local", "go"), nil, 0o644); err != nil {
		b.t.Fatalf("let the task go on: %v", err)
	}
	if err := b.answer(followed, "a follower, after the end of the task"); err != nil {
		b.t.Errorf("a follower until the end of the task: %v", err)
	}
	if got := r.text(); got != "two\nthree\n" || r.gap {
		b.t.Errorf("a follower of the last 4 bytes got %q, want %q", got, "two\nthree\n")
	}
}

// answer waits for the error of a call in another goroutine.
func (b *bench) answer(result <-chan error, what string) error {
	select {
	case err := <-result:
		return err
	case <-b.ctx.Done():
		b.t.Fatalf("ReadLogs does not return to %s", what)
		return nil
	}
}
