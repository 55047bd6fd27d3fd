// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// outputs is what is asked of an alloc about output that a daemon keeps; alloc.Runner is one.
type outputs interface {
	OutputOf(ctx context.Context, task string) (alloc.TaskRun, error)
	ReadOutput(ctx context.Context, run alloc.TaskRun, q driver.LogQuery, send func(driver.LogPiece) error) error
	Ended() bool
}

// daemonReader reads the output of a task that its driver's daemon keeps: the output of the
// current run, and while it follows, of the runs after it.
type daemonReader struct {
	runner outputs
	q      rpc.LogRequest
	s      *streamer
	begun  bool // there was output
}

// awaitFiles reports whether a task whose output is for log files has some. The files are there
// once the task was started (driver.LogConfig), unless the config of its driver says that none
// are kept. A reader that follows waits for the start, so that it never reads from the daemon
// what goes on in files.
func (d *daemonReader) awaitFiles(ctx context.Context, find func() (bool, error)) (bool, error) {
	for {
		run, err := d.runner.OutputOf(ctx, d.q.Task) // before the files
		found, ferr := find()
		switch {
		case found || ferr != nil:
			return found, ferr
		case err != nil && (!d.q.Follow || !errdefs.IsUnavailable(err)):
			return false, err
		case run.ID != "" || !d.q.Follow:
			return false, nil
		}
		if err := d.s.idle(); err != nil {
			return false, err
		}
	}
}

// run reads until there is no more; while it follows, until ctx ends.
func (d *daemonReader) run(ctx context.Context) error {
	query := driver.LogQuery{Stream: driver.LogStream(d.q.Type), Offset: d.q.Offset, FromEnd: d.q.Origin == "end", Follow: d.q.Follow}
	current, over := "", false // the run that is read, and whether it was read to its end
	for {
		run, err := d.runner.OutputOf(ctx, d.q.Task)
		if err == nil && run.ID != "" && (run.ID != current || !over) {
			if current != "" && run.ID != current {
				query.Offset, query.FromEnd = 0, false // the position was one in the output of the run before
			}
			current = run.ID
			err = d.readRun(ctx, run, &query)
			over = err == nil || errdefs.IsNotFound(err)
		}
		if d.q.Follow && errdefs.IsNotFound(err) && (d.begun || !d.runner.Ended()) {
			err = nil // the run has ended, and its output went with it
		}
		if !d.q.Follow || err != nil && !errdefs.IsUnavailable(err) {
			return err
		}
		if err := d.s.idle(); err != nil {
			return err
		}
	}
}

// readRun reads the output of one run. It advances query, so that a later call continues
// where this one was interrupted, such as by an upgrade of the plugin.
func (d *daemonReader) readRun(ctx context.Context, run alloc.TaskRun, query *driver.LogQuery) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pieces, ended := make(chan driver.LogPiece), make(chan error, 1)
	q := *query
	go func() {
		ended <- d.runner.ReadOutput(ctx, run, q, func(p driver.LogPiece) error {
			select {
			case pieces <- p:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	beat := time.NewTicker(heartbeatEvery)
	defer beat.Stop()
	for {
		var err error
		select {
		case p := <-pieces:
			end := p.Offset + int64(len(p.Data))
			query.Offset, query.FromEnd, d.begun = end, false, true
			err = d.s.put(&model.StreamFrame{Offset: end, Data: p.Data, File: d.q.Task + "." + d.q.Type})
		case err := <-ended:
			return err
		case <-beat.C:
			if d.q.Follow {
				err = d.s.put(&model.StreamFrame{})
			}
		}
		if err != nil {
			return err
		}
	}
}
