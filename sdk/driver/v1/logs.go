// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	driverv1 "github.com/drover-project/drover/sdk/internal/pb/driver/v1"

	"github.com/drover-project/drover/sdk/errdefs"
)

// FeatureReadLogs: the driver is a LogReader.
const FeatureReadLogs Feature = "read_logs"

// LogReader is implemented by drivers whose daemon keeps the output of tasks and can give it
// back. The host asks for it where a task has no log files: see LogConfig.Disabled and
// Capabilities.DisableLogCollection. A driver that writes the files needs none of this.
type LogReader interface {
	// ReadLogs passes output of a task to send, in order, as the task has written it. It
	// returns when it has sent everything; with q.Follow it also waits until the task has
	// ended. It ends when ctx ends, or with the error of send. It may be called any number
	// of times, also while the task runs, until the task is destroyed. NotFound: there is
	// no such task. FailedPrecondition: the output of this task is not kept, or cannot be
	// read. Unavailable: the daemon does not answer; the caller goes on with another call.
	ReadLogs(ctx context.Context, taskID string, q LogQuery, send func(LogPiece) error) error
}

// LogStream is one of the two outputs of a task.
type LogStream string

// The outputs. All output of a task with a terminal is LogStdout.
const (
	LogStdout LogStream = "stdout"
	LogStderr LogStream = "stderr"
)

// LogQuery says what to read.
type LogQuery struct {
	Stream LogStream
	// Offset is where to begin, in bytes from the beginning of what the daemon keeps, or
	// with FromEnd in bytes before its end. An Offset beyond the output means the end, or
	// with FromEnd the beginning.
	Offset  int64
	FromEnd bool
	// Follow waits for more until the task has ended.
	Follow bool
}

// LogPiece is a piece of the output. Offset is where it begins, in bytes from the beginning
// of what the daemon kept when the call began.
type LogPiece struct {
	Offset int64
	Data   []byte
}

// maxPiece is the most data in one message, in bytes.
const maxPiece = 256 << 10

func (s *server) ReadLogs(req *driverv1.ReadLogsRequest, out grpc.ServerStreamingServer[driverv1.ReadLogsResponse]) error {
	d, err := s.drivers.Get(req.GetDriver())
	if err != nil {
		return err
	}
	l, ok := d.(LogReader)
	if !ok {
		return errdefs.ToGRPC(errdefs.Unimplementedf("driver %q cannot read the output of its tasks", req.GetDriver()))
	}
	q := LogQuery{Stream: LogStream(req.GetStream()), Offset: req.GetOffset(), FromEnd: req.GetFromEnd(), Follow: req.GetFollow()}
	if err := q.check(); err != nil {
		return errdefs.ToGRPC(err)
	}
	return errdefs.ToGRPC(l.ReadLogs(out.Context(), req.GetTaskId(), q, func(p LogPiece) error {
		for len(p.Data) > 0 {
			n := min(len(p.Data), maxPiece)
			if err := out.Send(&driverv1.ReadLogsResponse{Offset: p.Offset, Data: p.Data[:n]}); err != nil {
				return err
			}
			p = LogPiece{Offset: p.Offset + int64(n), Data: p.Data[n:]}
		}
		return nil
	}))
}

// check refuses invalid queries, so that drivers need not.
func (q LogQuery) check() error {
	if q.Stream != LogStdout && q.Stream != LogStderr {
		return errdefs.InvalidArgumentf("a task has no output %q; it has stdout and stderr", q.Stream)
	}
	if q.Offset < 0 {
		return errdefs.InvalidArgumentf("offset %d of an output: must not be below zero", q.Offset)
	}
	return nil
}

// ReadLogs implements LogReader.
func (c *client) ReadLogs(ctx context.Context, taskID string, q LogQuery, send func(LogPiece) error) error {
	ctx, cancel := context.WithCancel(ctx) // ends the stream if send fails
	defer cancel()
	s, err := c.rpc.ReadLogs(ctx, &driverv1.ReadLogsRequest{
		Driver: c.info.Name, TaskId: taskID, Stream: string(q.Stream), Offset: q.Offset, FromEnd: q.FromEnd, Follow: q.Follow,
	})
	for err == nil {
		var m *driverv1.ReadLogsResponse
		if m, err = s.Recv(); err != nil {
			break
		}
		if err := send(LogPiece{Offset: m.GetOffset(), Data: m.GetData()}); err != nil {
			return err
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return errdefs.FromGRPC(err)
}
