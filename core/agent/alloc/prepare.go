// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/agent/taskenv"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// prepare makes everything that a start needs and returns what the driver gets.
func (r *Runner) prepare(name string, run uint64) (driver.Driver, *driver.TaskConfig, error) {
	r.mu.Lock()
	a, tg, t := r.alloc, r.group, r.tasks[name].job
	r.mu.Unlock()
	drv, err := r.cfg.Drivers.Driver(t.Driver)
	if err != nil {
		// A plugin that is away may come back.
		return nil, nil, errdefs.Unavailablef("%w", err)
	}
	info := drv.Info()
	if err := supported(tg, info.Capabilities); err != nil {
		return nil, nil, err
	}
	if err := r.dir.Build(); err != nil {
		return nil, nil, err
	}
	if err := r.dir.BuildTask(name); err != nil {
		return nil, nil, err
	}
	if err := writePayload(r.dir, a.Job, t); err != nil {
		return nil, nil, err
	}
	env := r.environment(a, t, info.Capabilities)
	config, err := driverConfig(info, env, t)
	if err != nil {
		return nil, nil, err
	}
	mounts, err := mountsOf(r.cfg.Node(), tg, t, info)
	if err != nil {
		return nil, nil, err
	}
	out := r.taskConfig(a, tg, t, run)
	out.DriverConfig, out.Env, out.User, out.Mounts = config, env.Map(), env.Replace(t.User), mounts
	return drv, out, nil
}

// supported refuses what the node cannot do yet rather than running the task
// without it.
func supported(tg *model.TaskGroup, c driver.Capabilities) error {
	for _, n := range tg.Networks {
		if n.Mode == "" || n.Mode == "host" || n.Mode == "none" && slices.Contains(c.NetworkModes, driver.NetworkMode("none")) {
			continue
		}
		return errdefs.InvalidArgumentf("network mode %q of group %q cannot be set up by this node; use mode \"host\"", n.Mode, tg.Name)
	}
	return nil
}

func (r *Runner) environment(a *model.Allocation, t *model.Task, c driver.Capabilities) *taskenv.Env {
	in := taskenv.Input{Node: r.cfg.Node(), Alloc: a, Task: t, Region: r.cfg.Region}
	if in.Node != nil {
		in.ParentCgroup = in.Node.CgroupParent
	}
	in.AllocDir, in.TaskDir, in.SecretsDir = taskenv.TaskPaths(r.dir.Path, t.Name)
	switch c.FSIsolation {
	case "chroot", "image":
		in.AllocDir, in.TaskDir, in.SecretsDir = "/alloc", "/local", "/secrets"
	default:
		in.HostEnv = r.cfg.HostEnv
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
		AllocDir: r.dir.Shared(), TaskDir: r.dir.Task(t.Name), KillSignal: t.KillSignal, KillTimeout: t.KillTimeout,
		Logs: logsOf(r.dir, t),
	}
	if a.AllocatedResources != nil {
		out.Resources = resourcesOf(a.AllocatedResources.Tasks[t.Name], r.cfg.Node())
		for _, p := range a.AllocatedResources.Shared.Ports {
			out.Ports = append(out.Ports, driver.Port{Label: p.Label, Value: p.Value, To: p.To, HostIP: p.HostIP})
		}
	}
	if len(tg.Networks) > 0 && tg.Networks[0].DNS != nil {
		d := tg.Networks[0].DNS
		out.DNS = &driver.DNSConfig{Servers: d.Servers, Searches: d.Searches, Options: d.Options}
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

func resourcesOf(t *model.AllocatedTaskResources, n *model.Node) driver.Resources {
	if t == nil {
		return driver.Resources{}
	}
	out := driver.Resources{CPUMHz: t.Cpu.CpuShares, MemoryMB: t.Memory.MemoryMB, MemoryMaxMB: t.Memory.MemoryMaxMB}
	for _, c := range t.Cpu.ReservedCores {
		out.Cores = append(out.Cores, int(c))
	}
	if n != nil && n.NodeResources != nil && n.NodeResources.Cpu.CpuShares > 0 {
		out.CPUPercent = 100 * float64(t.Cpu.CpuShares) / float64(n.NodeResources.Cpu.CpuShares)
	}
	return out
}

// writePayload puts a dispatch payload where the task wants it.
func writePayload(dir allocdir.Dir, job *model.Job, t *model.Task) error {
	if t.DispatchPayload == nil || len(job.Payload) == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir.Local(t.Name))
	if err != nil {
		return errdefs.Internalf("open the task's folder: %w", err)
	}
	defer root.Close()
	file := filepath.Clean(strings.TrimLeft(t.DispatchPayload.File, "/"))
	if err := root.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return errdefs.InvalidArgumentf("make the folder of the dispatch payload %q: %w", file, err)
	}
	if err := root.WriteFile(file, job.Payload, 0o666); err != nil {
		return errdefs.InvalidArgumentf("write the dispatch payload %q: %w", file, err)
	}
	return nil
}

// mountsOf finds the host volumes that a task mounts.
func mountsOf(n *model.Node, tg *model.TaskGroup, t *model.Task, info driver.Info) ([]driver.Mount, error) {
	var out []driver.Mount
	for _, m := range t.VolumeMounts {
		v := tg.Volumes[m.Volume]
		if v == nil || v.Type != "host" {
			return nil, errdefs.InvalidArgumentf("volume %q of task %q cannot be mounted by this node; only host volumes can", m.Volume, t.Name)
		}
		if !info.Capabilities.MountConfigs {
			return nil, errdefs.InvalidArgumentf("driver %q cannot mount volumes; use another driver for task %q", info.Name, t.Name)
		}
		host := n.HostVolumes[v.Source]
		if host == nil {
			return nil, errdefs.InvalidArgumentf("host volume %q is not on this node", v.Source)
		}
		out = append(out, driver.Mount{
			HostPath: host.Path, TaskPath: m.Destination, ReadOnly: m.ReadOnly || v.ReadOnly || host.ReadOnly,
			PropagationMode: m.PropagationMode, SELinuxLabel: m.SELinuxLabel,
		})
	}
	return out, nil
}
