// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Devices reserves devices that the scheduler gave to a task; *devices.Keeper does.
type Devices interface {
	Reserve(ctx context.Context, h device.Holder, asks []DeviceAsk) (*device.Reservation, error)
	// Look says that a task may no longer use its devices. It must not block.
	Look()
}

// DeviceAsk is devices of one group that a task gets, with the job's config for them.
type DeviceAsk struct {
	Set    device.Set
	Config map[string]any
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
	env := p.environment(p.alloc, p.task, p.info.Capabilities, template.Vars{})
	var asks []DeviceAsk
	for i, d := range given {
		ask := DeviceAsk{Set: device.Set{Vendor: d.Vendor, Type: d.Type, Name: d.Name, IDs: d.DeviceIDs}}
		if wanted := p.task.Resources; wanted != nil && i < len(wanted.Devices) {
			ask.Config, _ = env.ReplaceAny(wanted.Devices[i].Config).(map[string]any)
		}
		asks = append(asks, ask)
	}
	h := device.Holder{Namespace: p.alloc.Namespace, JobID: p.alloc.JobID, TaskGroup: p.group.Name, AllocID: p.alloc.ID, Task: p.name}
	var all *device.Reservation
	err := p.patientStep(ctx, StepDevices, p.cfg.Limits.Disk, func(ctx context.Context) (err error) {
		all, err = p.cfg.Devices.Reserve(ctx, h, asks)
		return err
	})
	if err != nil {
		return &stepError{task.InSetup, err}
	}
	p.tasks[p.name].reserved.Store(all)
	return nil
}

// UsesDevices reports whether a task uses its devices: it has not ended, or its driver is
// still freeing its resources.
func (r *Runner) UsesDevices(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tasks[name]
	return t != nil && (!r.begun || t.state.Phase != task.Dead || len(t.freeing) > 0)
}

// NoteTask adds an event to a task of the alloc.
func (r *Runner) NoteTask(name string, ev model.TaskEvent) {
	if r.HasTask(name) {
		r.post(name, task.Note{Event: ev})
	}
}

// lookAtDevices says that a task of the alloc may have ended.
func (r *Runner) lookAtDevices(name string) {
	if r.cfg.Devices != nil && len(DevicesOf(r.alloc, name)) > 0 {
		r.cfg.Devices.Look()
	}
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

// addDevices adds the task's devices to its config. A driver without file system isolation
// needs no mounts for them.
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
		return errdefs.InvalidArgumentf("driver %q cannot make the mounts that the devices of task %q need; use another driver for it", p.info.Name, p.name)
	}
	for _, m := range all.Mounts {
		out.Mounts = append(out.Mounts, driver.Mount{HostPath: m.HostPath, TaskPath: m.TaskPath, ReadOnly: m.ReadOnly})
	}
	for _, n := range all.Nodes {
		out.Devices = append(out.Devices, driver.Device{HostPath: n.HostPath, TaskPath: n.TaskPath, Permissions: n.Permissions})
	}
	return nil
}
