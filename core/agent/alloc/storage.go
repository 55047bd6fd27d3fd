// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/drover-project/drover/core/agent/storage"
	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Storage brings volumes of storage plugins to allocs, and watches tasks that are CSI
// drivers; *storage.Keeper does.
type Storage interface {
	// Claim asks the servers for a volume until they grant it or ctx ends. waits gets the
	// reasons why they do not.
	Claim(ctx context.Context, allocID, request string, waits func(string)) (*storage.Mount, error)
	// Keep says that an alloc has a volume, or may have it.
	Keep(m *storage.Mount)
	// Stage, Publish, Unpublish and Unstage may be repeated. They try again while a plugin
	// is away, until ctx ends.
	Stage(ctx context.Context, m *storage.Mount) error
	Publish(ctx context.Context, m *storage.Mount) error
	Unpublish(ctx context.Context, m *storage.Mount) error
	Unstage(ctx context.Context, m *storage.Mount) error

	// Endpoint, Folders and Prepare are about a driver that is to be started, and Begin says
	// that it runs, until end is called.
	Endpoint(d storage.Driver) string
	Folders(d storage.Driver) storage.Folders
	Prepare(d storage.Driver) error
	Begin(d storage.Driver) (end func(gone bool))
}

func (r *Runner) needsStorage() bool { return len(r.group.CSIRequests()) > 0 }

// storageSteps are the steps of a group that has volumes of storage plugins: the servers
// grant all of them, they are staged, and then they are published. The alloc has not ended
// before both are reversed, since the servers give its volumes to others then.
func (r *Runner) storageSteps() []groupStep {
	return []groupStep{
		{
			StepSpec: specOfStep(GroupClaims, "servers", 0, false),
			needed:   r.needsStorage,
			prepare:  r.claimVolumes,
		},
		{
			StepSpec: insisting(specOfStep(GroupStaged, "storage plugin", r.cfg.Limits.Volumes, true)),
			needed:   r.needsStorage,
			prepare:  r.eachMount(Storage.Stage),
			undo:     r.takeBack(Storage.Unstage),
		},
		{
			StepSpec: insisting(specOfStep(GroupPublished, "storage plugin", r.cfg.Limits.Volumes, true)),
			needed:   r.needsStorage,
			prepare:  r.eachMount(Storage.Publish),
			undo:     r.takeBack(Storage.Unpublish),
		},
	}
}

// claimVolumes has the servers grant the group's volumes, and stores what the alloc is about
// to have of them.
func (r *Runner) claimVolumes(ctx context.Context) error {
	if r.cfg.Storage == nil {
		return errdefs.InvalidArgumentf("this node has no storage plugins; let the job run on others")
	}
	r.mu.Lock()
	names := r.group.CSIRequests()
	r.mu.Unlock()
	for _, name := range names {
		m, err := r.cfg.Storage.Claim(ctx, r.id, name, r.waitsFor)
		if err != nil {
			return err
		}
		r.mu.Lock()
		next := maps.Clone(r.mounts)
		if next == nil {
			next = map[string]*storage.Mount{}
		}
		next[name] = m
		r.mounts = next
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groupDetail = ""
	return r.cfg.Store.PutAlloc(r.ctx, r.record()) // before anything is mounted
}

// waitsFor says what the current step of the group waits for.
func (r *Runner) waitsFor(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groupDetail = what
}

// mountsInOrder returns what the alloc has of volumes, by the names of the requests.
func (r *Runner) mountsInOrder() (out []*storage.Mount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.mounts)) {
		out = append(out, r.mounts[name])
	}
	return out
}

// eachMount does one step for each volume, in order.
func (r *Runner) eachMount(do func(Storage, context.Context, *storage.Mount) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, m := range r.mountsInOrder() {
			if err := do(r.cfg.Storage, ctx, m); err != nil {
				return err
			}
		}
		return nil
	}
}

// takeBack reverses one step for each volume. A volume that cannot be taken back does not keep
// the others.
func (r *Runner) takeBack(do func(Storage, context.Context, *storage.Mount) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if r.cfg.Storage == nil {
			return nil // so nothing was brought
		}
		ctx, cancel := context.WithTimeout(ctx, tearDownLimit-stepGrace)
		defer cancel()
		var failed []error
		for _, m := range slices.Backward(r.mountsInOrder()) {
			if err := do(r.cfg.Storage, ctx, m); err != nil {
				failed = append(failed, err)
			}
		}
		return errors.Join(failed...)
	}
}

// keepMounts tells the node's storage what an alloc of an earlier agent has.
func (r *Runner) keepMounts() {
	if r.cfg.Storage == nil || !r.usesVolumes() {
		return
	}
	for _, m := range r.mounts {
		r.cfg.Storage.Keep(m)
	}
}

// UsesVolumes reports whether the alloc has volumes of storage plugins, or may have some.
func (r *Runner) UsesVolumes() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.usesVolumes()
}

func (r *Runner) usesVolumes() bool {
	for _, s := range r.phase.Steps {
		if (s.Name == GroupStaged || s.Name == GroupPublished) && s.Holds() {
			return true
		}
	}
	return false
}

// volumes makes sure that the group's volumes are there, since a restart of the machine may
// have unmounted them.
func (p *preparation) volumes(ctx context.Context) error {
	if p.cfg.Storage == nil || !p.UsesVolumes() {
		return nil
	}
	return p.patientStep(ctx, StepVolumes, p.cfg.Limits.Volumes, p.eachMount(Storage.Publish))
}

// storageMount returns how a task mounts a volume of a storage plugin.
func (p *preparation) storageMount(m *model.VolumeMount, v *model.VolumeRequest, out *driver.TaskConfig) error {
	p.mu.Lock()
	has := p.mounts[m.Volume]
	p.mu.Unlock()
	if has == nil {
		return errdefs.Unavailablef("volume %q is not on this node at the moment", m.Volume)
	}
	to, err := p.destination(m.Destination)
	if err != nil {
		return err
	}
	readOnly := m.ReadOnly || !v.Writes() || has.ReadOnly
	if has.Block {
		permissions := "rwm"
		if readOnly {
			permissions = "r"
		}
		out.Devices = append(out.Devices, driver.Device{HostPath: has.Target, TaskPath: to, Permissions: permissions})
		return nil
	}
	out.Mounts = append(out.Mounts, driver.Mount{
		HostPath: has.Target, TaskPath: to, ReadOnly: readOnly, PropagationMode: m.PropagationMode, SELinuxLabel: m.SELinuxLabel,
	})
	return nil
}

// addStorage adds the volumes of storage plugins that the task mounts, and what it needs if it
// is a CSI driver.
func (p *preparation) addStorage(out *driver.TaskConfig) error {
	for _, m := range p.task.VolumeMounts {
		v := p.group.Volumes[m.Volume]
		if !v.IsCSI() {
			continue
		}
		if !p.info.Capabilities.MountConfigs {
			return errdefs.InvalidArgumentf("driver %q cannot mount volumes; use another driver for task %q", p.info.Name, p.task.Name)
		}
		if err := p.storageMount(m, v, out); err != nil {
			return err
		}
	}
	return p.addDriver(out)
}

// csiDriver describes a task that is a CSI driver; ok is false for others.
func (r *Runner) csiDriver(t *model.Task, c driver.Capabilities) (d storage.Driver, ok bool) {
	if t.CSIPluginConfig == nil || r.cfg.Storage == nil {
		return d, false
	}
	return storage.Driver{AllocID: r.id, Task: t.Name, Plugin: t.CSIPluginConfig, Isolated: isolatesFiles(c)}, true
}

func isolatesFiles(c driver.Capabilities) bool {
	return c.FSIsolation == "chroot" || c.FSIsolation == imageIsolation
}

// csiEndpoint is what a task that is a CSI driver finds in CSI_ENDPOINT; "" for others.
func (r *Runner) csiEndpoint(t *model.Task, c driver.Capabilities) string {
	d, ok := r.csiDriver(t, c)
	if !ok {
		return ""
	}
	return r.cfg.Storage.Endpoint(d)
}

// prepareDriver makes the folders of a CSI driver.
func (p *preparation) prepareDriver(ctx context.Context) error {
	if p.task.CSIPluginConfig == nil {
		return nil
	}
	d, ok := p.csiDriver(p.task, p.info.Capabilities)
	if !ok {
		return errdefs.InvalidArgumentf("task %q is a CSI driver, and this node has no storage plugins", p.name)
	}
	return p.step(ctx, StepDriverFolders, p.cfg.Limits.Disk, func(context.Context) error { return p.cfg.Storage.Prepare(d) })
}

const (
	imageIsolation = "image" // of drivers whose tasks have an image
	devices        = "/dev"  // where such a task finds the devices of the machine
)

// addDriver gives a CSI driver with a file system of its own the folders of the node and,
// unless it is only a controller, the machine's devices.
func (p *preparation) addDriver(out *driver.TaskConfig) error {
	d, ok := p.csiDriver(p.task, p.info.Capabilities)
	if !ok || !d.Isolated {
		return nil
	}
	if !p.info.Capabilities.MountConfigs {
		return errdefs.InvalidArgumentf("driver %q makes no mounts, which task %q needs as a CSI driver; use another driver", p.info.Name, p.name)
	}
	f := p.cfg.Storage.Folders(d)
	out.Mounts = append(out.Mounts, driver.Mount{HostPath: f.Socket, TaskPath: d.Plugin.MountDir, PropagationMode: "private"})
	if f.Mounts == "" {
		return nil
	}
	out.Mounts = append(out.Mounts, driver.Mount{HostPath: f.Mounts, TaskPath: d.Plugin.StagePublishBaseDir, PropagationMode: "bidirectional"})
	// Volumes are made of devices, also of such that appear while the task runs.
	if p.info.Capabilities.FSIsolation == imageIsolation {
		out.Mounts = append(out.Mounts, driver.Mount{HostPath: devices, TaskPath: devices, PropagationMode: "private"})
	} else {
		out.Devices = append(out.Devices, driver.Device{HostPath: devices, TaskPath: devices, Permissions: "rwm"})
	}
	return nil
}

// beginDriver says that the task runs, if it is a CSI driver.
func (r *Runner) beginDriver(drv driver.Driver, name string) (end func(gone bool)) {
	r.mu.Lock()
	t := r.tasks[name]
	job, healthy := t.job, false
	for _, ev := range t.state.Report.Events { // of its present run, as far as they are there
		switch ev.Type {
		case model.TaskStarted:
			healthy = false
		case model.TaskPluginHealthy:
			healthy = true
		}
	}
	r.mu.Unlock()
	d, ok := r.csiDriver(job, drv.Info().Capabilities)
	if !ok {
		return func(bool) {}
	}
	d.Healthy = healthy
	d.Note = func(ev model.TaskEvent) { r.NoteTask(name, ev) }
	d.Fail = func(ev model.TaskEvent) { r.post(name, task.Kill{Reason: ev}) }
	return r.cfg.Storage.Begin(d)
}
