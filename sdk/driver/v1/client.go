// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	driverv1 "github.com/drover-project/drover/sdk/internal/pb/driver/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/served"
	"github.com/drover-project/drover/sdk/internal/stream"
)

// Connect returns the drivers of the plugin process at the other end of conn, in the
// plugin's order. They stop working when the process is gone: calls and waits then
// return Unavailable, and channels are closed.
func Connect(ctx context.Context, conn grpc.ClientConnInterface) ([]Driver, error) {
	rpc := driverv1.NewDriverClient(conn)
	resp, err := rpc.Drivers(ctx, &driverv1.DriversRequest{})
	return served.Clients(resp.GetDrivers(), err, infoFromPB, func(i Info) Driver { return &client{rpc: rpc, info: i} })
}

// client is a driver in another process.
type client struct {
	rpc  driverv1.DriverClient
	info Info
}

func (c *client) Info() Info { return c.info }

func (c *client) SetConfig(ctx context.Context, config []byte) error {
	_, err := c.rpc.SetConfig(ctx, &driverv1.SetConfigRequest{Driver: c.info.Name, Config: config})
	return errdefs.FromGRPC(err)
}

func (c *client) Fingerprint(ctx context.Context) (<-chan Fingerprint, error) {
	s, err := c.rpc.Fingerprint(ctx, &driverv1.FingerprintRequest{Driver: c.info.Name})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return stream.Receive(ctx, s, func(m *driverv1.FingerprintResponse) Fingerprint {
		return Fingerprint{Attributes: m.GetAttributes(), Health: Health(m.GetHealth()), HealthDescription: m.GetHealthDescription()}
	})
}

func (c *client) StartTask(ctx context.Context, task *TaskConfig) (*Handle, *NetworkOverride, error) {
	resp, err := c.rpc.StartTask(ctx, &driverv1.StartTaskRequest{Driver: c.info.Name, Task: taskToPB(task)})
	if err != nil {
		return nil, nil, errdefs.FromGRPC(err)
	}
	if resp.GetHandle() == nil {
		return nil, nil, withoutHandle(c.info.Name, task.ID)
	}
	return handleFromPB(resp.GetHandle()), overrideFromPB(resp.GetNetworkOverride()), nil
}

func (c *client) RecoverTask(ctx context.Context, handle *Handle) error {
	_, err := c.rpc.RecoverTask(ctx, &driverv1.RecoverTaskRequest{Driver: c.info.Name, Handle: handleToPB(handle)})
	return errdefs.FromGRPC(err)
}

func (c *client) WaitTask(ctx context.Context, taskID string) (ExitResult, error) {
	resp, err := c.rpc.WaitTask(ctx, &driverv1.WaitTaskRequest{Driver: c.info.Name, TaskId: taskID})
	if err != nil {
		return ExitResult{}, errdefs.FromGRPC(err)
	}
	return exitFromPB(resp.GetResult()), nil
}

func (c *client) StopTask(ctx context.Context, taskID string, timeout time.Duration, signal string) error {
	_, err := c.rpc.StopTask(ctx, &driverv1.StopTaskRequest{
		Driver: c.info.Name, TaskId: taskID, Timeout: durationpb.New(timeout), Signal: signal,
	})
	return errdefs.FromGRPC(err)
}

func (c *client) DestroyTask(ctx context.Context, task TaskRef, force bool) error {
	_, err := c.rpc.DestroyTask(ctx, &driverv1.DestroyTaskRequest{
		Driver: c.info.Name, TaskId: task.ID, Force: force, AllocDir: task.AllocDir, TaskDir: task.TaskDir,
	})
	return errdefs.FromGRPC(err)
}

func (c *client) InspectTask(ctx context.Context, taskID string) (*TaskStatus, error) {
	resp, err := c.rpc.InspectTask(ctx, &driverv1.InspectTaskRequest{Driver: c.info.Name, TaskId: taskID})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return statusFromPB(resp.GetStatus()), nil
}

// ListTasks implements Lister.
func (c *client) ListTasks(ctx context.Context) ([]*Handle, error) {
	resp, err := c.rpc.ListTasks(ctx, &driverv1.ListTasksRequest{Driver: c.info.Name})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	out := make([]*Handle, 0, len(resp.GetTasks()))
	for _, h := range resp.GetTasks() {
		out = append(out, handleFromPB(h))
	}
	return out, nil
}

func (c *client) TaskStats(ctx context.Context, interval time.Duration) (<-chan []TaskStats, error) {
	s, err := c.rpc.TaskStats(ctx, &driverv1.TaskStatsRequest{Driver: c.info.Name, Interval: durationpb.New(interval)})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return stream.Receive(ctx, s, statsFromPB)
}

func (c *client) SignalTask(ctx context.Context, taskID string, signal string) error {
	_, err := c.rpc.SignalTask(ctx, &driverv1.SignalTaskRequest{Driver: c.info.Name, TaskId: taskID, Signal: signal})
	return errdefs.FromGRPC(err)
}

func (c *client) TaskEvents(ctx context.Context) (<-chan TaskEvent, error) {
	s, err := c.rpc.TaskEvents(ctx, &driverv1.TaskEventsRequest{Driver: c.info.Name, Progress: true})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return stream.Receive(ctx, s, eventFromPB)
}

func (c *client) ExecTask(ctx context.Context, taskID string, opts ExecOptions, stream ExecStream) (ExitResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := c.rpc.ExecTask(ctx)
	if err != nil {
		return ExitResult{}, errdefs.FromGRPC(err)
	}
	start := &driverv1.ExecStart{Driver: c.info.Name, TaskId: taskID, Command: opts.Command, Tty: opts.TTY, User: opts.User, Directory: opts.Directory, Env: opts.Env}
	if opts.Size != (TerminalSize{}) {
		start.Size = sizeToPB(opts.Size)
	}
	// A failed Send returns only io.EOF; Recv returns the cause.
	err = s.Send(&driverv1.ExecTaskRequest{Message: &driverv1.ExecTaskRequest_Start{Start: start}})
	if err != nil && !errors.Is(err, io.EOF) {
		return ExitResult{}, errdefs.FromGRPC(err)
	}
	sends := newExecSender(s)
	go sends.stdin(stream.Stdin)
	go sends.resizes(ctx, stream.Resize)
	return receiveExecOutput(s, stream)
}

type execClient = grpc.BidiStreamingClient[driverv1.ExecTaskRequest, driverv1.ExecTaskResponse]

// receiveExecOutput writes the command's output until its result comes.
func receiveExecOutput(s execClient, stream ExecStream) (ExitResult, error) {
	for {
		msg, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return ExitResult{}, errdefs.Internalf("exec: the plugin ended the stream without a result")
		}
		if err != nil {
			return ExitResult{}, errdefs.FromGRPC(err)
		}
		switch m := msg.GetMessage().(type) {
		case *driverv1.ExecTaskResponse_Stdout:
			err = write(stream.Stdout, m.Stdout)
		case *driverv1.ExecTaskResponse_Stderr:
			err = write(stream.Stderr, m.Stderr)
		case *driverv1.ExecTaskResponse_Result:
			return exitFromPB(m.Result), nil
		}
		if err != nil {
			return ExitResult{}, errdefs.Abortedf("exec: hand on the command's output: %w", err)
		}
	}
}

func write(w io.Writer, p []byte) error {
	if w == nil {
		return nil
	}
	_, err := w.Write(p)
	return err
}
