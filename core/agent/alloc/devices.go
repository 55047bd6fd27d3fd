// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"maps"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Devices says how a task gets at devices that the scheduler gave it;
// *pluginhost.Host does.
type Devices interface {
	ReserveDevices(ctx context.Context, vendor, typ, name string, ids []string) (*device.Reservation, error)
}

// reserve asks the device plugins how the task gets at its devices. It is asked
// before each start: a plugin may answer otherwise after an upgrade.
func (p *preparation) reserve(ctx context.Context) error {
	given := DevicesOf(p.alloc, p.name)
	if len(given) == 0 {
		return nil
	}
	if p.cfg.Devices == nil {
		return &stepError{task.InSetup, errdefs.InvalidArgumentf("task %q has devices, which this node cannot offer", p.name)}
	}
	all := &device.Reservation{Env: map[string]string{}}
	err := p.step(ctx, StepDevices, p.cfg.Limits.Disk, func(ctx context.Context) error {
		for _, d := range given {
			one, err := p.cfg.Devices.ReserveDevices(ctx, d.Vendor, d.Type, d.Name, d.DeviceIDs)
			if err != nil {
				return err
			}
			maps.Copy(all.Env, one.Env)
			all.Mounts, all.Nodes = append(all.Mounts, one.Mounts...), append(all.Nodes, one.Nodes...)
			all.CDIDevices = append(all.CDIDevices, one.CDIDevices...)
		}
		return nil
	})
	if err != nil {
		return &stepError{task.InSetup, err}
	}
	p.tasks[p.name].reserved.Store(all)
	return nil
}

// DevicesOf are the devices that the scheduler gave to a task.
func DevicesOf(a *model.Allocation, taskName string) []*model.AllocatedDeviceResource {
	if a.AllocatedResources == nil || a.AllocatedResources.Tasks[taskName] == nil {
		return nil
	}
	return a.AllocatedResources.Tasks[taskName].Devices
}

// reservedEnv are the variables that name a task's devices to it.
func (r *Runner) reservedEnv(taskName string) map[string]string {
	if all := r.tasks[taskName].reserved.Load(); all != nil {
		return all.Env
	}
	return nil
}

// addDevices shows the task its devices. A driver that shows its tasks the
// machine as it is has nothing to mount for that.
func (p *preparation) addDevices(out *driver.TaskConfig) error {
	all := p.tasks[p.name].reserved.Load()
	if all == nil {
		return nil
	}
	out.DeviceEnv, out.CDIDevices = all.Env, all.CDIDevices
	if p.info.Capabilities.FSIsolation == "none" {
		return nil
	}
	if len(all.Mounts) > 0 && !p.info.Capabilities.MountConfigs {
		return errdefs.InvalidArgumentf("driver %q cannot mount what the devices of task %q need; use another driver for it", p.info.Name, p.name)
	}
	for _, m := range all.Mounts {
		out.Mounts = append(out.Mounts, driver.Mount{HostPath: m.HostPath, TaskPath: m.TaskPath, ReadOnly: m.ReadOnly})
	}
	for _, n := range all.Nodes {
		out.Devices = append(out.Devices, driver.Device{HostPath: n.HostPath, TaskPath: n.TaskPath, Permissions: n.Permissions})
	}
	return nil
}
