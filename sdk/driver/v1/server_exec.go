// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	driverv1 "github.com/drover-project/drover/sdk/internal/pb/driver/v1"

	"github.com/drover-project/drover/sdk/errdefs"
)

type execServer = grpc.BidiStreamingServer[driverv1.ExecTaskRequest, driverv1.ExecTaskResponse]

// ExecTask connects the messages of the stream to the readers and writers of the
// contract.
func (s *server) ExecTask(out execServer) error {
	first, err := out.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start == nil {
		return errdefs.ToGRPC(errdefs.InvalidArgumentf("exec: the first message must be start"))
	}
	d, err := s.drivers.Get(start.GetDriver())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(out.Context())
	defer cancel()
	stdin, stdinWriter := io.Pipe()
	// The command may end before its input does.
	defer stdin.Close()
	resize := make(chan TerminalSize, 1)
	go receiveExec(ctx, cancel, out, stdinWriter, resize)

	var mu sync.Mutex
	result, err := d.ExecTask(ctx, start.GetTaskId(), ExecOptions{
		Command: start.GetCommand(), TTY: start.GetTty(), Size: sizeFromPB(start.GetSize()),
		User: start.GetUser(), Directory: start.GetDirectory(), Env: start.GetEnv(),
	}, ExecStream{
		Stdin: stdin,
		Stdout: sendWriter(func(p []byte) error {
			mu.Lock()
			defer mu.Unlock()
			return out.Send(&driverv1.ExecTaskResponse{Message: &driverv1.ExecTaskResponse_Stdout{Stdout: p}})
		}),
		Stderr: sendWriter(func(p []byte) error {
			mu.Lock()
			defer mu.Unlock()
			return out.Send(&driverv1.ExecTaskResponse{Message: &driverv1.ExecTaskResponse_Stderr{Stderr: p}})
		}),
		Resize: resize,
	})
	if err != nil {
		return errdefs.ToGRPC(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return out.Send(&driverv1.ExecTaskResponse{Message: &driverv1.ExecTaskResponse_Result{Result: exitToPB(result)}})
}

// receiveExec passes on the user's input until the stream ends. If the stream ends
// before the user closed the input, it kills the command by calling cancel.
func receiveExec(ctx context.Context, cancel context.CancelFunc, in execServer, stdin *io.PipeWriter, resize chan TerminalSize) {
	for {
		msg, err := in.Recv()
		if errors.Is(err, io.EOF) {
			_ = stdin.Close() // Close of a pipe returns no error
			return
		}
		if err != nil {
			_ = stdin.CloseWithError(err)
			cancel()
			return
		}
		switch m := msg.GetMessage().(type) {
		case *driverv1.ExecTaskRequest_Stdin:
			// An error means that the command no longer reads: drop the rest.
			_, _ = stdin.Write(m.Stdin)
		case *driverv1.ExecTaskRequest_StdinClosed:
			_ = stdin.Close()
		case *driverv1.ExecTaskRequest_Resize:
			replaceSize(resize, sizeFromPB(m.Resize))
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// replaceSize puts size into a channel with capacity one and replaces a size that was
// not read yet.
func replaceSize(ch chan TerminalSize, size TerminalSize) {
	for {
		select {
		case ch <- size:
			return
		default:
		}
		select {
		case <-ch:
		default:
		}
	}
}

// sendWriter is an io.Writer over a function that must not retain p.
type sendWriter func(p []byte) error

// chunk limits the size of one message of output.
const chunk = 64 << 10

func (w sendWriter) Write(p []byte) (int, error) {
	sent := 0
	for len(p) > 0 {
		n := min(len(p), chunk)
		if err := w(p[:n]); err != nil {
			return sent, err
		}
		sent += n
		p = p[n:]
	}
	return sent, nil
}
