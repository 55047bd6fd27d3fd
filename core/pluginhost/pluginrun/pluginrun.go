// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package pluginrun is a stand-in for an agent: it runs one task with one driver of a
// plugin, without a cluster, for an author who wants to see what the driver does. It owns
// the task's directory and the reports. It interpolates nothing, restarts nothing and makes
// no networks, volumes or templates; core/agent does. cmd/drover imports it.
package pluginrun

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

// callLimit limits each call except the start of the task, which has no limit, because
// it may fetch an image.
const callLimit = 30 * time.Second

// Options says what to run; all of it is required except Config and Task.
type Options struct {
	Path   string         // path of the plugin's executable
	Config map[string]any // the agent's config of the driver
	Job    *model.Job
	// Task names the task to run; empty means the first one whose driver the plugin has.
	Task    string
	Version string // version of Drover, for the plugin
	// Watch is called with each event, from one goroutine at a time.
	Watch func(Event)
}

// Event is something that happened. Kind is "plugin", "fingerprint", "warning",
// "started", "event", "progress", "stdout", "stderr", "stopping" or "exited".
type Event struct {
	Time time.Time
	Kind string
	Text string
}

// Run runs the task until it has ended or ctx ends, which stops it with the job's
// kill_signal and kill_timeout, and returns how it ended.
func Run(ctx context.Context, opts Options) (driver.ExitResult, error) {
	dir, err := os.MkdirTemp("", "drover-run")
	if err != nil {
		return driver.ExitResult{}, fmt.Errorf("run the plugin: %w", err)
	}
	defer os.RemoveAll(dir)
	// #nosec: a task may run as another user
	if err := os.Chmod(dir, 0o755); err != nil {
		return driver.ExitResult{}, fmt.Errorf("run the plugin: %w", err)
	}
	host, err := pluginhost.New(pluginhost.Config{
		Dir: filepath.Dir(opts.Path), StateDir: filepath.Join(dir, "host"), Tied: true, Host: plugin.Host{Version: opts.Version, Region: model.DefaultRegion},
		Env: []string{plugin.StateDirEnv + "=" + filepath.Join(dir, "plugin")},
	})
	if err != nil {
		return driver.ExitResult{}, fmt.Errorf("run the plugin: %w", err)
	}
	defer host.Close(false)
	o, err := host.Open(ctx, opts.Path)
	if err != nil {
		return driver.ExitResult{}, err
	}
	defer o.Close()
	if o.Foreign {
		return driver.ExitResult{}, errdefs.InvalidArgumentf("%s is built for Nomad; run it under an agent: drover agent -dev -plugin-dir DIR", opts.Path)
	}
	var mu sync.Mutex
	watch := opts.Watch
	opts.Watch = func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		watch(e)
	}
	r := &run{opts: opts, dir: filepath.Join(dir, "alloc")}
	r.tell("plugin", "%s %s, pid %d, started in %s", o.Info.Name, o.Info.Version, o.PID, o.Took.Round(time.Millisecond))
	if err := r.choose(o.Drivers); err != nil {
		return driver.ExitResult{}, err
	}
	return r.run(ctx)
}

// run is one run of a task.
type run struct {
	opts   Options
	dir    string // directory of the alloc
	driver driver.Backend
	group  *model.TaskGroup
	task   *model.Task
}

func (r *run) tell(kind, format string, args ...any) {
	r.opts.Watch(Event{Time: time.Now(), Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// choose finds the task to run and its driver.
func (r *run) choose(drivers []driver.Backend) error {
	var names []string
	for _, d := range drivers {
		names = append(names, d.Info().Name)
	}
	if len(names) == 0 {
		return errdefs.InvalidArgumentf("%s serves no driver; devices and collectors are run under an agent: make run, or drover agent -dev -plugin-dir DIR", r.opts.Path)
	}
	for _, g := range r.opts.Job.TaskGroups {
		for _, t := range g.Tasks {
			i := slices.Index(names, t.Driver)
			if i < 0 && t.Name == r.opts.Task {
				return errdefs.InvalidArgumentf("task %q has the driver %q, and the plugin serves %s", t.Name, t.Driver, strings.Join(names, ", "))
			}
			if i >= 0 && (r.opts.Task == "" || r.opts.Task == t.Name) {
				r.driver, r.group, r.task = drivers[i], g, t
				return nil
			}
		}
	}
	return errdefs.NotFoundf("the job has no task %q with a driver of the plugin, which serves %s", r.opts.Task, strings.Join(names, ", "))
}

func (r *run) run(ctx context.Context) (driver.ExitResult, error) {
	if err := r.configure(ctx); err != nil {
		return driver.ExitResult{}, err
	}
	config, err := r.config()
	if err != nil {
		return driver.ExitResult{}, err
	}
	r.warn()
	defer r.destroy(ctx, config.Ref())
	defer r.follow(ctx)()
	if _, _, err = r.driver.StartTask(ctx, config); err != nil {
		return driver.ExitResult{}, fmt.Errorf("start task %q: %w", r.task.Name, err)
	}
	r.tell("started", "task %q of driver %q", r.task.Name, r.task.Driver)
	logs := newTails(config.Logs, r.opts.Watch)
	result, err := r.await(ctx, config.ID, logs)
	logs.end()
	if err == nil {
		r.tell("exited", "%s", describe(result))
	}
	return result, err
}

// warn lists the features of the task that only an agent provides.
func (r *run) warn() {
	t, g, res := r.task, r.group, r.task.Resources
	if res == nil {
		res = &model.Resources{}
	}
	for _, one := range []struct {
		asked bool
		name  string
	}{
		{res.Cores > 0, "resources.cores"}, {len(res.Devices) > 0, "resources.device"}, {res.SecretsMB > 0, "resources.secrets"}, {res.NUMA != nil, "resources.numa"},
		{len(res.Networks)+len(g.Networks) > 0, "network"}, {len(g.Volumes) > 0, "volume"}, {len(t.VolumeMounts) > 0, "volume_mount"},
		{len(t.Templates) > 0, "template"}, {len(t.Artifacts) > 0, "artifact"}, {len(t.Secrets) > 0, "secret"}, {len(t.Services)+len(g.Services) > 0, "service"},
		{t.Vault != nil, "vault"}, {t.Consul != nil, "consul"}, {t.DispatchPayload != nil, "dispatch_payload"}, {t.Schedule != nil, "schedule"},
		{g.Count > 1, "count"},
	} {
		if one.asked {
			r.tell("warning", "%s has no effect here; run the job under an agent, with drover agent -dev -plugin-dir DIR", one.name)
		}
	}
	if r.driver.Info().Capabilities.HostCgroup == driver.HostCgroupLimited {
		r.tell("warning", "resources are not enforced here, because driver %q wants a cgroup for them, which an agent makes", r.task.Driver)
	}
}

// configure passes the agent config and waits for the first fingerprint.
func (r *run) configure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	accepts := r.driver.Info().ConfigSchema
	applied, err := accepts.Apply(r.opts.Config)
	if err != nil {
		return errdefs.InvalidArgumentf("the agent config of driver %q: %w", r.task.Driver, err)
	}
	body, err := json.Marshal(applied)
	if err == nil {
		err = r.driver.SetConfig(ctx, body)
	}
	if err != nil {
		return fmt.Errorf("configure driver %q: %w", r.task.Driver, err)
	}
	prints, err := r.driver.Fingerprint(ctx)
	if err != nil {
		return fmt.Errorf("fingerprint driver %q: %w", r.task.Driver, err)
	}
	print, open := <-prints
	if !open {
		return errdefs.Unavailablef("driver %q sent no fingerprint within %s", r.task.Driver, callLimit)
	}
	r.tell("fingerprint", "%s", strings.TrimSpace(string(print.Health)+" "+print.HealthDescription))
	return nil
}

// config makes the task's directories and its config.
func (r *run) config() (*driver.TaskConfig, error) {
	accepts := r.driver.Info().TaskConfigSchema
	applied, err := accepts.Apply(r.task.Config)
	if err != nil {
		return nil, errdefs.InvalidArgumentf("task %q: %w", r.task.Name, err)
	}
	body, err := json.Marshal(applied)
	if err != nil {
		return nil, fmt.Errorf("encode the config of task %q: %w", r.task.Name, err)
	}
	taskDir, logs := filepath.Join(r.dir, r.task.Name), filepath.Join(r.dir, "alloc", "logs")
	for _, d := range []string{filepath.Join(taskDir, "local"), filepath.Join(taskDir, "secrets"), filepath.Join(taskDir, "tmp"), logs} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("make the directory of the task: %w", err)
		}
	}
	j, id := r.opts.Job, uuid.NewString()
	env := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "NOMAD_TASK_NAME": r.task.Name, "NOMAD_GROUP_NAME": r.group.Name,
		"NOMAD_JOB_ID": j.ID, "NOMAD_JOB_NAME": j.Name, "NOMAD_ALLOC_ID": id, "NOMAD_TASK_DIR": filepath.Join(taskDir, "local"),
		"NOMAD_ALLOC_DIR": filepath.Join(r.dir, "alloc"), "NOMAD_SECRETS_DIR": filepath.Join(taskDir, "secrets"),
	}
	for k, v := range r.task.Env {
		env[k] = v
	}
	c := &driver.TaskConfig{
		ID: id, Name: r.task.Name, Namespace: j.Namespace, JobID: j.ID, JobName: j.Name, TaskGroup: r.group.Name, AllocID: id,
		AllocName: fmt.Sprintf("%s.%s[0]", j.ID, r.group.Name), DriverConfig: body, Env: env, User: r.task.User, AllocDir: r.dir, TaskDir: taskDir,
		KillSignal: r.task.KillSignal, KillTimeout: r.task.KillTimeout,
		Logs: driver.LogConfig{StdoutPath: filepath.Join(logs, r.task.Name+".stdout"), StderrPath: filepath.Join(logs, r.task.Name+".stderr"), MaxFiles: 10, MaxFileSizeMB: 10},
	}
	if l := r.task.LogConfig; l != nil {
		c.Logs.MaxFiles, c.Logs.MaxFileSizeMB, c.Logs.Disabled = l.MaxFiles, l.MaxFileSizeMB, l.Disabled
	}
	if res := r.task.Resources; res != nil {
		c.Resources = driver.Resources{CPUMHz: int64(res.CPU), MemoryMB: int64(res.MemoryMB), MemoryMaxMB: int64(res.MemoryMaxMB)}
	}
	return c, nil
}

// follow reports the driver's events until it is stopped.
func (r *run) follow(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	events, err := r.driver.TaskEvents(ctx)
	if err != nil { // the driver has none
		cancel()
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range events {
			if text := e.Message; text != "" {
				r.tell("event", "%s", text)
			} else if e.Progress != nil && e.Progress.Phase != "" {
				r.tell("progress", "%s", e.Progress)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// await waits for the end of the task and reports its output. If ctx ends first, it stops
// the task.
func (r *run) await(ctx context.Context, id string, logs *tails) (driver.ExitResult, error) {
	type ended struct {
		result driver.ExitResult
		err    error
	}
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	done := make(chan ended, 1)
	go func() {
		result, err := r.driver.WaitTask(waiting, id)
		done <- ended{result, err}
	}()
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	interrupt := ctx.Done()
	for {
		select {
		case e := <-done:
			return e.result, e.err
		case <-tick.C:
			logs.read()
		case <-interrupt:
			interrupt = nil
			r.tell("stopping", "the task has %s until it is killed", r.task.KillTimeout)
			limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.task.KillTimeout+callLimit)
			err := r.driver.StopTask(limit, id, r.task.KillTimeout, r.task.KillSignal)
			cancel()
			if err != nil {
				return driver.ExitResult{}, fmt.Errorf("stop task %q: %w", r.task.Name, err)
			}
		}
	}
}

// destroy removes everything of the task, even after a failed start.
func (r *run) destroy(ctx context.Context, ref driver.TaskRef) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
	defer cancel()
	if err := r.driver.DestroyTask(ctx, ref, true); err != nil {
		r.tell("event", "the task cannot be destroyed: %v", err)
	}
}

// describe says how a task ended.
func describe(e driver.ExitResult) string {
	text := fmt.Sprintf("exit code %d", e.ExitCode)
	if e.Signal != 0 {
		text += fmt.Sprintf(", signal %d", e.Signal)
	}
	if e.OOMKilled {
		text += ", out of memory"
	}
	if e.Err != "" {
		text += ": " + e.Err
	}
	return text
}
