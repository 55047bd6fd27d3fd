// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package drivercheck_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// keeper is a driver whose "daemon" is a directory, in which it keeps the output of tasks.
type keeper struct {
	driver.Driver
	dir    string
	change func(q *driver.LogQuery)
	piece  func(p *driver.LogPiece)
	ends   func(err error) error
}

func (k keeper) file(id string, s driver.LogStream) string {
	return filepath.Join(k.dir, strings.ReplaceAll(id, "/", "_")+"."+string(s))
}

func (k keeper) StartTask(ctx context.Context, in *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	c := *in
	c.Logs = driver.LogConfig{StdoutPath: k.file(c.ID, driver.LogStdout), StderrPath: k.file(c.ID, driver.LogStderr), MaxFiles: 1, MaxFileSizeMB: 1}
	return k.Driver.StartTask(ctx, &c)
}

func (k keeper) ReadLogs(ctx context.Context, id string, q driver.LogQuery, send func(driver.LogPiece) error) error {
	if k.change != nil {
		k.change(&q)
	}
	err := k.read(ctx, id, q, send)
	if k.ends != nil {
		err = k.ends(err)
	}
	return err
}

func (k keeper) read(ctx context.Context, id string, q driver.LogQuery, send func(driver.LogPiece) error) error {
	at := int64(-1)
	for {
		status, err := k.InspectTask(ctx, id)
		if err != nil {
			return err
		}
		body, err := os.ReadFile(k.file(id, q.Stream) + ".0")
		if err != nil {
			return errdefs.FailedPreconditionf("%w", err)
		}
		size := int64(len(body))
		switch {
		case at >= 0:
		case q.FromEnd:
			at = max(0, size-q.Offset)
		default:
			at = min(q.Offset, size)
		}
		if at < size {
			p := driver.LogPiece{Offset: at, Data: body[at:]}
			if k.piece != nil {
				k.piece(&p)
			}
			if err := send(p); err != nil {
				return err
			}
			at = size
		}
		if !q.Follow || status.State == driver.TaskExited {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestEachDefectOfALogReaderIsFound(t *testing.T) {
	for what, k := range map[string]keeper{
		"mixed outputs": {change: func(q *driver.LogQuery) { q.Stream = driver.LogStdout }},
		"no offset":     {change: func(q *driver.LogQuery) { q.Offset = 0 }},
		"one end only":  {change: func(q *driver.LogQuery) { q.FromEnd = false }},
		"no follow":     {change: func(q *driver.LogQuery) { q.Follow = false }},
		"wrong places":  {piece: func(p *driver.LogPiece) { p.Offset += 100 }},
		"no class": {ends: func(err error) error {
			if errdefs.IsNotFound(err) {
				return errdefs.Internalf("%w", err)
			}
			return err
		}},
	} {
		k.dir = t.TempDir()
		s := subject(func(d driver.Driver) driver.Driver { k.Driver = d; return k })
		s.Timeout = 10 * time.Second
		if r := check(t, "read-logs", s); r.Outcome != conformance.Failed {
			t.Errorf("%s: %+v", what, r)
		}
	}
	good := keeper{dir: t.TempDir()}
	if r := check(t, "read-logs", subject(func(d driver.Driver) driver.Driver { good.Driver = d; return good })); r.Outcome != conformance.Passed {
		t.Errorf("without a defect: %+v", r)
	}
	if r := check(t, "read-logs", subject(func(d driver.Driver) driver.Driver { return d })); r.Outcome != conformance.Skipped {
		t.Errorf("a driver without the feature: %+v", r)
	}
}
