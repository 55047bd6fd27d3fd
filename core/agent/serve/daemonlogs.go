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

// daemonReader reads the output of a task that its driver's daemon keeps: the output of the
// current run, and while it follows, of the runs after it.
type daemonReader struct {
	runner *alloc.Runner
	q      rpc.LogRequest
	s      *streamer
	begun  bool // there was output
}

// run reads until there is no more; while it follows, until ctx ends.
func (d *daemonReader) run(ctx context.Context) error {
	query := driver.LogQuery{Stream: driver.LogStream(d.q.Type), Offset: d.q.Offset, FromEnd: d.q.Origin == "end", Follow: d.q.Follow}
	read := "" // the run that was read to its end
	for {
		run, err := d.runner.OutputOf(ctx, d.q.Task)
		if err == nil && run.ID != "" && run.ID != read {
			err = d.readRun(ctx, run, &query)
		}
		if errdefs.IsNotFound(err) && d.q.Follow && d.begun {
			err = nil // the run has ended, and its output went with it
		}
		switch {
		case err != nil && (!d.q.Follow || !errdefs.IsUnavailable(err)):
			return err
		case !d.q.Follow:
			return nil
		case err == nil && run.ID != "" && run.ID != read:
			// The next run is read from its beginning.
			read, query.Offset, query.FromEnd = run.ID, 0, false
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
