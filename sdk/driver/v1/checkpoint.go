// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"

	driverv1 "github.com/drover-project/drover/sdk/internal/pb/driver/v1"

	"github.com/drover-project/drover/sdk/errdefs"
)

// FeatureCheckpoint: the driver is a Checkpointer.
const FeatureCheckpoint Feature = "checkpoint"

// Checkpointer is implemented by drivers that can write the memory of a running task to
// files, and start a task that continues from there: later, under another version of its
// runtime, or on another machine to which the directory and the files of the task were
// copied. Such a driver is a Pauser, too.
//
// A checkpoint belongs to the files of the task as they were when it was written. So the
// task does not go on by itself after CheckpointTask: the caller either ends it with
// DestroyTask and restores the checkpoint, or continues the task with ResumeTask and
// deletes the checkpoint.
type Checkpointer interface {
	Pauser

	// CheckpointTask pauses a running task and writes its state into dir, an absolute path
	// of an empty directory that belongs to the caller. It returns once all of it is on
	// disk. The task is then paused, see Pauser; it may have been paused before. After an
	// error the task is as it was, and the files in dir are useless.
	//
	// The state contains the task's memory, including secrets: files in dir must be
	// readable only by their owner.
	//
	// NotFound: there is no such task. FailedPrecondition: it has ended, or the task uses
	// something whose state this driver or this machine cannot write; the text names it.
	CheckpointTask(ctx context.Context, taskID, dir string) error

	// RestoreTask starts a task as StartTask does, with the same rules and classes of
	// errors, but it goes on from the checkpoint in dir. The config equals the config of
	// the task that was written, except for ID, directories, ports and node. RestoreTask
	// does not change dir, so that the caller can try again. Once it has succeeded, dir can
	// be deleted.
	//
	// InvalidArgument: dir has no checkpoint that this driver can restore, or the
	// checkpoint of a task with another config.
	RestoreTask(ctx context.Context, task *TaskConfig, dir string) (*Handle, *NetworkOverride, error)
}

func (s *server) checkpointer(name string) (Checkpointer, error) {
	d, err := s.drivers.Get(name)
	if err != nil {
		return nil, err
	}
	c, ok := d.(Checkpointer)
	if !ok {
		return nil, errdefs.ToGRPC(errdefs.Unimplementedf("driver %q cannot write checkpoints of tasks", name))
	}
	return c, nil
}

func (s *server) CheckpointTask(ctx context.Context, req *driverv1.CheckpointTaskRequest) (*driverv1.CheckpointTaskResponse, error) {
	c, err := s.checkpointer(req.GetDriver())
	if err != nil {
		return nil, err
	}
	return &driverv1.CheckpointTaskResponse{}, errdefs.ToGRPC(c.CheckpointTask(ctx, req.GetTaskId(), req.GetDirectory()))
}

func (s *server) RestoreTask(ctx context.Context, req *driverv1.RestoreTaskRequest) (*driverv1.RestoreTaskResponse, error) {
	c, err := s.checkpointer(req.GetDriver())
	if err != nil {
		return nil, err
	}
	handle, override, err := c.RestoreTask(ctx, taskFromPB(req.GetTask()), req.GetDirectory())
	if err != nil {
		return nil, errdefs.ToGRPC(err)
	}
	if handle == nil {
		return nil, errdefs.ToGRPC(withoutHandle(req.GetDriver(), req.GetTask().GetId()))
	}
	return &driverv1.RestoreTaskResponse{Handle: handleToPB(handle), NetworkOverride: overrideToPB(override)}, nil
}

// CheckpointTask implements Checkpointer.
func (c *client) CheckpointTask(ctx context.Context, taskID, dir string) error {
	_, err := c.rpc.CheckpointTask(ctx, &driverv1.CheckpointTaskRequest{Driver: c.info.Name, TaskId: taskID, Directory: dir})
	return errdefs.FromGRPC(err)
}

// RestoreTask implements Checkpointer.
func (c *client) RestoreTask(ctx context.Context, task *TaskConfig, dir string) (*Handle, *NetworkOverride, error) {
	resp, err := c.rpc.RestoreTask(ctx, &driverv1.RestoreTaskRequest{Driver: c.info.Name, Task: taskToPB(task), Directory: dir})
	if err != nil {
		return nil, nil, errdefs.FromGRPC(err)
	}
	if resp.GetHandle() == nil {
		return nil, nil, withoutHandle(c.info.Name, task.ID)
	}
	return handleFromPB(resp.GetHandle()), overrideFromPB(resp.GetNetworkOverride()), nil
}

// withoutHandle returns the error for a driver that started a task and returned no handle.
func withoutHandle(driver, taskID string) error {
	return errdefs.Internalf("driver %q started task %q without a handle; the plugin is defective", driver, taskID)
}
