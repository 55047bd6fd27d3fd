// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/taskenv"
	"github.com/drover-project/drover/sdk/errdefs"
)

// prepareAndStart goes through the steps of a start, each with its own limit. A start holds
// what allocs share only during the node's own short steps: a download, a template or a
// driver that hangs delays its own task only.
func (r *Runner) prepareAndStart(ctx context.Context, name string, run uint64) (driver.Driver, error) {
	p := &preparation{Runner: r, name: name, run: run}
	r.mu.Lock()
	p.alloc, p.group, p.task = r.alloc, r.group, r.tasks[name].job
	r.mu.Unlock()
	if err := r.cfg.Rules.AllowDriver(p.task.Driver); err != nil {
		return nil, err
	}
	var err error
	if p.driver, err = r.cfg.Drivers.Driver(p.task.Driver); err != nil {
		// A plugin that is away may come back.
		return nil, errdefs.Unavailablef("%w", err)
	}
	p.info = p.driver.Info()
	if err := r.inTurn(ctx, name, func() error { return p.folders(ctx) }); err != nil {
		return nil, err
	}
	if err := p.reserve(ctx); err != nil {
		return nil, err
	}
	if err := p.network(ctx); err != nil {
		return nil, err
	}
	if err := p.volumes(ctx); err != nil {
		return nil, err
	}
	if err := p.prepareDriver(ctx); err != nil {
		return nil, err
	}
	p.env = r.environment(p.alloc, p.task, p.info.Capabilities, template.Vars{})
	if err := p.identify(ctx); err != nil {
		return nil, err
	}
	if err := p.logIn(ctx); err != nil {
		return nil, err
	}
	if err := p.fetch(ctx); err != nil {
		return nil, err
	}
	if err := p.render(ctx); err != nil {
		return nil, err
	}
	return p.driver, r.inTurn(ctx, name, func() error { return p.start(ctx) })
}

// preparation is one start of a task.
type preparation struct {
	*Runner
	name   string
	run    uint64
	alloc  *model.Allocation
	group  *model.TaskGroup
	task   *model.Task
	driver driver.Driver
	info   driver.Info
	env    *taskenv.Env
}

func (p *preparation) step(ctx context.Context, name string, limit time.Duration, do func(context.Context) error) error {
	return p.runStep(ctx, p.name, step{name: name, limit: limit, do: do})
}

// patientStep is a step that asks a plugin. While the plugin is being restarted, the step is
// tried again until its limit, so that it does not use up the restarts of the task.
func (p *preparation) patientStep(ctx context.Context, name string, limit time.Duration, do func(context.Context) error) error {
	var last atomic.Pointer[string]
	waitsFor := func() string {
		if why := last.Load(); why != nil {
			return *why
		}
		return ""
	}
	return p.runStep(ctx, p.name, step{name: name, limit: limit, detail: waitsFor, do: func(ctx context.Context) error {
		for pause := retryMin; ; pause = min(2*pause, retryMax) {
			err := do(ctx)
			if !errdefs.IsUnavailable(err) {
				return err
			}
			last.Store(new(err.Error()))
			if !p.pauseIn(ctx, pause) {
				return err
			}
		}
	}})
}

// network makes sure that the group's network works, since it may have been damaged.
func (p *preparation) network(ctx context.Context) error {
	if !p.UsesNetwork() {
		return nil
	}
	return p.patientStep(ctx, StepNetwork, p.cfg.Limits.Network, p.makeNetwork)
}

// start makes the task's config and calls the driver's StartTask.
func (p *preparation) start(ctx context.Context) error {
	config, err := p.taskConfig()
	if err != nil {
		return err
	}
	if err := p.validate(ctx, config); err != nil {
		return err
	}
	uid, err := p.assignUser(ctx, config.User)
	if err != nil {
		return err
	}
	config.DynamicUID = uid
	if err := p.admit(ctx, config.User, uid); err != nil {
		return err
	}
	err = p.runStep(ctx, p.name, step{name: StepDriver, limit: p.cfg.Limits.Driver, detail: func() string { return p.progress(p.name) }, do: func(ctx context.Context) error {
		return p.startTask(ctx, p.driver, p.name, p.run, config)
	}})
	if err != nil {
		return &stepError{cause: task.InDriver, err: err}
	}
	return nil
}

func (p *preparation) taskConfig() (*driver.TaskConfig, error) {
	config, err := driverConfig(p.info, p.env, p.task)
	if err != nil {
		return nil, err
	}
	mounts, err := mountsOf(p.cfg.Node(), p.alloc, p.group, p.task, p.info)
	if err != nil {
		return nil, err
	}
	for i := range mounts {
		if mounts[i].TaskPath, err = p.destination(mounts[i].TaskPath); err != nil {
			return nil, err
		}
	}
	user := p.env.Replace(p.task.User)
	if err := p.cfg.Rules.allowUser(p.task.Driver, user); err != nil {
		return nil, err
	}
	out := p.Runner.taskConfig(p.alloc, p.group, p.task, p.run)
	out.Network, out.DNS = p.isolation(p.group, p.info.Capabilities), p.resolver(p.alloc, p.group)
	out.DriverConfig, out.Env, out.SecretEnv, out.User, out.Mounts = config, p.env.Map(), p.env.Secrets(), user, mounts
	if err := p.addStorage(out); err != nil {
		return nil, err
	}
	return out, p.addDevices(out)
}

// environment returns the task's environment; rendered are the variables of its templates.
func (r *Runner) environment(a *model.Allocation, t *model.Task, c driver.Capabilities, rendered template.Vars) *taskenv.Env {
	in := taskenv.Input{Node: r.cfg.Node(), Alloc: a, Task: t, Region: r.cfg.Region, Devices: r.reservedEnv(t.Name), Rendered: rendered.Plain, Secret: rendered.Secret, Address: r.groupAddress(), CSIEndpoint: r.csiEndpoint(t, c)}
	if in.Node != nil {
		in.ParentCgroup = in.Node.CgroupParent
	}
	in.Secret = r.withTokens(t, rendered)
	in.AllocDir, in.TaskDir, in.SecretsDir = taskenv.TaskPaths(r.dir.Path, t.Name)
	switch c.FSIsolation {
	case "chroot", "image":
		in.AllocDir, in.TaskDir, in.SecretsDir = "/alloc", "/local", "/secrets"
	}
	if c.FSIsolation != "image" { // an image brings its own
		in.HostEnv, in.HostDenylist = r.cfg.HostEnv, r.cfg.Rules.EnvDenylist
	}
	return taskenv.Build(in)
}

func driverConfig(info driver.Info, env *taskenv.Env, t *model.Task) ([]byte, error) {
	config, _ := env.ReplaceAny(t.Config).(map[string]any)
	full, err := info.TaskConfigSchema.Apply(config)
	if err != nil {
		return nil, errdefs.InvalidArgumentf("config of task %q for driver %q: %w", t.Name, t.Driver, err)
	}
	body, err := json.Marshal(full)
	if err != nil {
		return nil, errdefs.InvalidArgumentf("encode the config of task %q: %w", t.Name, err)
	}
	return body, nil
}

func (r *Runner) taskConfig(a *model.Allocation, tg *model.TaskGroup, t *model.Task, run uint64) *driver.TaskConfig {
	out := &driver.TaskConfig{
		ID: taskID(a.ID, t.Name, run), Name: t.Name, Namespace: a.Namespace, JobID: a.JobID, JobName: a.Job.Name,
		TaskGroup: tg.Name, AllocID: a.ID, AllocName: a.Name, NodeID: a.NodeID, NodeName: a.NodeName,
		AllocDir: r.dir.Path, TaskDir: r.dir.Task(t.Name), KillSignal: t.KillSignal, KillTimeout: r.cfg.killTimeout(t),
		Logs: logsOf(r.dir, t),
	}
	if a.AllocatedResources != nil {
		out.Resources = r.cfg.resourcesOf(a.AllocatedResources.Tasks[t.Name])
		for _, p := range a.AllocatedResources.Shared.Ports {
			out.Ports = append(out.Ports, driver.Port{Label: p.Label, Value: p.Value, To: p.To, HostIP: p.HostIP})
		}
	}
	return out
}

func logsOf(dir allocdir.Dir, t *model.Task) driver.LogConfig {
	out := driver.LogConfig{
		StdoutPath: dir.LogPrefix(t.Name, "stdout"), StderrPath: dir.LogPrefix(t.Name, "stderr"), MaxFiles: 10, MaxFileSizeMB: 10,
	}
	if c := t.LogConfig; c != nil {
		out.MaxFiles, out.MaxFileSizeMB, out.Disabled = c.MaxFiles, c.MaxFileSizeMB, c.Disabled
	}
	return out
}
