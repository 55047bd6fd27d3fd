// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"

	driverv1 "github.com/drover-project/drover/sdk/internal/pb/driver/v1"

	"github.com/drover-project/drover/sdk/errdefs"
)

// FeaturePause: the driver is a Pauser.
const FeaturePause Feature = "pause"

// Pauser is implemented by drivers that can suspend a running task and continue it later,
// for example with the freezer of its cgroup. A paused task keeps its memory, its files and
// its connections, and uses no processor.
//
// The kernel or a daemon remembers what is paused, not the driver: a task stays paused
// while no process of the driver runs, and InspectTask reports it in TaskStatus.Paused,
// whoever paused the task. The host always asks. StopTask and DestroyTask with force end a
// paused task as any other: StopTask resumes it first, so that it can act on the signal.
// ExecTask in a paused task returns FailedPrecondition.
type Pauser interface {
	// PauseTask returns once nothing of the task runs. It is not an error if the task is
	// paused already. If it cannot be paused as a whole, it runs on. NotFound: there is no
	// such task. FailedPrecondition: it has ended, or this machine cannot pause it.
	PauseTask(ctx context.Context, taskID string) error

	// ResumeTask lets the task continue. It is not an error if it runs.
	// NotFound: there is no such task. FailedPrecondition: it has ended.
	ResumeTask(ctx context.Context, taskID string) error
}

func (s *server) pauser(name string) (Pauser, error) {
	d, err := s.drivers.Get(name)
	if err != nil {
		return nil, err
	}
	p, ok := d.(Pauser)
	if !ok {
		return nil, errdefs.ToGRPC(errdefs.Unimplementedf("driver %q cannot pause tasks", name))
	}
	return p, nil
}

func (s *server) PauseTask(ctx context.Context, req *driverv1.PauseTaskRequest) (*driverv1.PauseTaskResponse, error) {
	p, err := s.pauser(req.GetDriver())
	if err != nil {
		return nil, err
	}
	return &driverv1.PauseTaskResponse{}, errdefs.ToGRPC(p.PauseTask(ctx, req.GetTaskId()))
}

func (s *server) ResumeTask(ctx context.Context, req *driverv1.ResumeTaskRequest) (*driverv1.ResumeTaskResponse, error) {
	p, err := s.pauser(req.GetDriver())
	if err != nil {
		return nil, err
	}
	return &driverv1.ResumeTaskResponse{}, errdefs.ToGRPC(p.ResumeTask(ctx, req.GetTaskId()))
}

// PauseTask implements Pauser.
func (c *client) PauseTask(ctx context.Context, taskID string) error {
	_, err := c.rpc.PauseTask(ctx, &driverv1.PauseTaskRequest{Driver: c.info.Name, TaskId: taskID})
	return errdefs.FromGRPC(err)
}

// ResumeTask implements Pauser.
func (c *client) ResumeTask(ctx context.Context, taskID string) error {
	_, err := c.rpc.ResumeTask(ctx, &driverv1.ResumeTaskRequest{Driver: c.info.Name, TaskId: taskID})
	return errdefs.FromGRPC(err)
}
