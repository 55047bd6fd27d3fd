// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"

	driverv1 "github.com/drover-project/drover/sdk/internal/pb/driver/v1"

	"github.com/drover-project/drover/sdk/errdefs"
)

// FeatureUpdateResources: the driver is an Updater.
const FeatureUpdateResources Feature = "update_resources"

// Updater is implemented by drivers that can give a running task other resources without
// restarting it. Jobs make use of it with update { resources = "in_place" }.
type Updater interface {
	// UpdateTask gives a running task these resources. The resources are complete, so the
	// last call decides, and a call with the same resources changes nothing: the caller
	// repeats a call whose answer it missed. Cores never differ from the cores of the
	// start. SharedCores differ whenever other tasks have reserved cores or released them; a
	// call without any leaves the task on the cores that it has. If a driver cannot move a task
	// to other cores, it ignores them.
	//
	// The new resources must hold across a restart of the plugin and of the agent. The
	// handle does not change and RecoverTask is not told them, so keep them where they are
	// enforced, such as the task's cgroup or a daemon, and do not apply the resources of
	// the start again.
	//
	// NotFound: there is no such task. FailedPrecondition: the task has ended, or it uses more
	// memory than it would get; then its resources are unchanged, and it must not be killed to
	// make it fit. After any error but Unavailable the caller restarts the task, which gets its
	// new resources by StartTask.
	UpdateTask(ctx context.Context, taskID string, resources Resources) error
}

func (s *server) UpdateTask(ctx context.Context, req *driverv1.UpdateTaskRequest) (*driverv1.UpdateTaskResponse, error) {
	d, err := s.drivers.Get(req.GetDriver())
	if err != nil {
		return nil, err
	}
	u, ok := d.(Updater)
	if !ok {
		return nil, errdefs.ToGRPC(errdefs.Unimplementedf("driver %q cannot change the resources of a running task", req.GetDriver()))
	}
	return &driverv1.UpdateTaskResponse{}, errdefs.ToGRPC(u.UpdateTask(ctx, req.GetTaskId(), resourcesFromPB(req.GetResources())))
}

// UpdateTask implements Updater.
func (c *client) UpdateTask(ctx context.Context, taskID string, resources Resources) error {
	_, err := c.rpc.UpdateTask(ctx, &driverv1.UpdateTaskRequest{Driver: c.info.Name, TaskId: taskID, Resources: resourcesToPB(resources)})
	return errdefs.FromGRPC(err)
}
