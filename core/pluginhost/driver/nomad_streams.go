// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// sampler turns the protocol's stream per task into one stream for all of them.
type sampler struct {
	driver   *nomadDriver
	interval time.Duration

	mu      sync.Mutex
	streams map[string]*taskStream // by task
	latest  map[string]TaskStats
	wg      sync.WaitGroup
}

// taskStream is the stream of one task.
type taskStream struct {
	open   bool
	cancel context.CancelFunc
	failed int       // consecutive attempts without a sample
	next   time.Time // the next attempt, unless it is over
	over   bool      // it is never opened again
}

// maxStatsPause is the longest pause before the stream of a task is opened again.
const maxStatsPause = time.Minute

func (d *nomadDriver) TaskStats(ctx context.Context, interval time.Duration) (<-chan []TaskStats, error) {
	s := &sampler{driver: d, interval: interval, streams: map[string]*taskStream{}, latest: map[string]TaskStats{}}
	out := make(chan []TaskStats, 1)
	go s.run(ctx, out)
	return out, nil
}

func (s *sampler) run(ctx context.Context, out chan []TaskStats) {
	defer close(out)
	defer s.wg.Wait()
	ticker := time.NewTicker(s.interval)
	defer ticker.Stop()
	s.follow(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.follow(ctx)
		if samples := s.take(); len(samples) > 0 {
			select {
			case <-out: // the reader has not taken the sample before: it is old now
			default:
			}
			out <- samples
		}
	}
}

// follow opens a stream for each task without one, unless it must pause, and ends the
// streams of tasks that no longer exist.
func (s *sampler) follow(ctx context.Context) {
	s.driver.mu.Lock()
	tasks := maps.Clone(s.driver.tasks)
	s.driver.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, t := range s.streams {
		if _, there := tasks[id]; !there {
			t.cancel()
			delete(s.streams, id)
		}
	}
	now := time.Now()
	for id := range tasks {
		t := s.streams[id]
		if t == nil {
			t = &taskStream{}
			s.streams[id] = t
		}
		if t.open || t.over || now.Before(t.next) {
			continue
		}
		during, cancel := context.WithCancel(ctx)
		t.open, t.cancel = true, cancel
		s.wg.Go(func() { s.stream(during, id, t) })
	}
}

// stream reads the stream of a task to its end.
func (s *sampler) stream(ctx context.Context, id string, t *taskStream) {
	defer t.cancel()
	brought := false
	stream, err := s.driver.rpc.TaskStats(ctx, &pb.TaskStatsRequest{TaskId: id, CollectionInterval: durationpb.New(s.interval)})
	for err == nil {
		var m *pb.TaskStatsResponse
		if m, err = stream.Recv(); err == nil {
			sample := nomadStats(m.GetStats())
			sample.TaskID = id
			s.mu.Lock()
			s.latest[id] = sample
			s.mu.Unlock()
			brought = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.open = false
	if t.failed++; brought {
		t.failed = 1
	}
	t.over = permanent(nomadError(err))
	t.next = time.Now().Add(statsPause(s.interval, t.failed))
}

// permanent reports whether another attempt would fail in the same way.
func permanent(err error) bool {
	switch errdefs.ClassOf(err) {
	case errdefs.Unimplemented, errdefs.NotFound, errdefs.InvalidArgument, errdefs.PermissionDenied:
		return true
	}
	return false
}

// statsPause returns the pause after a number of consecutive attempts without a sample. The
// first one is shorter than the interval, so that no tick is missed.
func statsPause(interval time.Duration, failed int) time.Duration {
	pause := interval / 2
	for ; failed > 1 && pause < maxStatsPause; failed-- {
		pause *= 2
	}
	return min(pause, max(maxStatsPause, interval/2))
}

func (s *sampler) take() []TaskStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Collect(maps.Values(s.latest))
	clear(s.latest)
	return out
}

func (d *nomadDriver) ExecTask(ctx context.Context, taskID string, opts ExecOptions, stream ExecStream) (ExitResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rpc, err := d.rpc.ExecTaskStreaming(ctx)
	if err != nil {
		return ExitResult{}, nomadError(err)
	}
	said := false // whether anything has come
	in := &nomadInput{rpc: rpc}
	in.send(&pb.ExecTaskStreamingRequest{Setup: &pb.ExecTaskStreamingRequest_Setup{TaskId: taskID, Command: opts.Command, Tty: opts.TTY}})
	if opts.TTY && opts.Size != (TerminalSize{}) {
		in.resize(opts.Size)
	}
	go in.stdin(stream.Stdin)
	go in.resizes(ctx, stream.Resize)
	for {
		m, err := rpc.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return ExitResult{}, errdefs.Internalf("exec: the plugin ended the stream without a result; the plugin is defective")
		case errdefs.IsUnimplemented(nomadError(err)) && !said && !opts.TTY:
			return d.execOnce(ctx, taskID, opts, stream)
		case err != nil:
			return ExitResult{}, nomadError(err)
		}
		said = true
		if err := deliver(stream.Stdout, m.GetStdout()); err != nil {
			return ExitResult{}, err
		}
		if err := deliver(stream.Stderr, m.GetStderr()); err != nil {
			return ExitResult{}, err
		}
		if m.GetExited() {
			return nomadExit(m.GetResult()), nil
		}
	}
}

// execLimit bounds a command that has no other deadline.
const execLimit = time.Hour

// execOnce runs a command by the protocol's older call, which older drivers have
// alone: without input, and its output comes when it has ended.
func (d *nomadDriver) execOnce(ctx context.Context, taskID string, opts ExecOptions, stream ExecStream) (ExitResult, error) {
	limit := execLimit
	if at, ok := ctx.Deadline(); ok {
		limit = time.Until(at)
	}
	resp, err := d.rpc.ExecTask(ctx, &pb.ExecTaskRequest{TaskId: taskID, Command: opts.Command, Timeout: durationpb.New(limit)})
	if err != nil {
		return ExitResult{}, nomadError(err)
	}
	if err := deliver(stream.Stdout, &pb.ExecTaskStreamingIOOperation{Data: resp.GetStdout()}); err != nil {
		return ExitResult{}, err
	}
	if err := deliver(stream.Stderr, &pb.ExecTaskStreamingIOOperation{Data: resp.GetStderr()}); err != nil {
		return ExitResult{}, err
	}
	return nomadExit(resp.GetResult()), nil
}

func deliver(w io.Writer, op *pb.ExecTaskStreamingIOOperation) error {
	if w == nil || len(op.GetData()) == 0 {
		return nil
	}
	if _, err := w.Write(op.GetData()); err != nil {
		return errdefs.Abortedf("the reader of the command's output is gone: %w", err)
	}
	return nil
}

// nomadInput sends the input of one exec; gRPC allows one Send at a time.
type nomadInput struct {
	mu  sync.Mutex
	rpc pb.Driver_ExecTaskStreamingClient
}

// send returns false once the stream takes no more; Recv says why.
func (i *nomadInput) send(m *pb.ExecTaskStreamingRequest) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.rpc.Send(m) == nil
}

func (i *nomadInput) resize(s TerminalSize) bool {
	return i.send(&pb.ExecTaskStreamingRequest{TtySize: &pb.ExecTaskStreamingRequest_TerminalSize{Height: int32(s.Height), Width: int32(s.Width)}})
}

// stdin may outlive the exec in a Read that the caller's reader does not end; it
// then ends with that Read.
func (i *nomadInput) stdin(r io.Reader) {
	buf := make([]byte, 32<<10)
	for r != nil {
		n, err := r.Read(buf)
		if n > 0 && !i.send(&pb.ExecTaskStreamingRequest{Stdin: &pb.ExecTaskStreamingIOOperation{Data: slices.Clone(buf[:n])}}) {
			return
		}
		if err != nil {
			break
		}
	}
	i.send(&pb.ExecTaskStreamingRequest{Stdin: &pb.ExecTaskStreamingIOOperation{Close: true}})
}

func (i *nomadInput) resizes(ctx context.Context, sizes <-chan TerminalSize) {
	for {
		select {
		case <-ctx.Done():
			return
		case size, ok := <-sizes:
			if !ok || !i.resize(size) {
				return
			}
		}
	}
}
