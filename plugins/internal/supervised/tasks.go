// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package supervised is the common part of drivers whose tasks are processes under the
// node's supervisor: the contract of sdk/driver/v1 from start to destroy, handles,
// statistics, events of lost output, and the resolution of a task's user, signals,
// environment and log files. It owns no processes (plugins/internal/supervisor does)
// and does not know what a task runs (the driver does). Only drivers below plugins/
// import it.
package supervised

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

// Tasks are the tasks of one driver. It records the supervisor of each task, since a
// handle may name another supervisor than the one for new tasks. Drivers embed it.
type Tasks struct {
	plugin string
	dir    string

	mu      sync.Mutex
	clients map[string]*supervisor.Client // by the supervisor's directory
	known   map[string]*supervisor.Client // by task id
	version int                           // incremented with each change of known
	// starting are the starts in progress, by task id.
	starting map[string]*underWay
	// processes are the newest statistics of each process, by task id and pid, of the
	// tasks for which they were asked.
	processes map[string]map[int]supervisor.Process
}

// New returns the tasks of a plugin's driver. dir is the directory of the supervisor
// for new tasks.
func New(plugin, dir string) *Tasks {
	return &Tasks{
		plugin: plugin, dir: dir, clients: map[string]*supervisor.Client{}, known: map[string]*supervisor.Client{},
		starting: map[string]*underWay{}, processes: map[string]map[int]supervisor.Process{},
	}
}

// Dir returns the directory of the supervisor for new tasks.
func (t *Tasks) Dir() string { return t.dir }

// client returns the client of a supervisor, and starts the supervisor if necessary.
func (t *Tasks) client(ctx context.Context, dir string) (*supervisor.Client, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.clients[dir]; c != nil {
		return c, nil
	}
	c, err := supervisor.Open(ctx, dir)
	if err != nil {
		return nil, err
	}
	err = c.UpToDate(ctx)
	if ctx.Err() != nil {
		return nil, errors.Join(fmt.Errorf("ask the supervisor for its version: %w", ctx.Err()), c.Close())
	}
	if err != nil {
		// The old one keeps working. Requests that it does not support fail with a message.
		plugin.Logger(t.plugin).Warn("the supervisor stays at its old version", "dir", dir, "error", err)
	}
	t.clients[dir] = c
	return c, nil
}

// Close closes the connections to supervisors. Tasks keep running.
func (t *Tasks) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for _, c := range t.clients {
		errs = append(errs, c.Close())
	}
	t.clients, t.known = map[string]*supervisor.Client{}, map[string]*supervisor.Client{}
	return errors.Join(errs...)
}

// Of returns the client of the supervisor that runs a task, or NotFound.
func (t *Tasks) Of(id string) (*supervisor.Client, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.known[id]
	if c == nil {
		return nil, errdefs.NotFoundf("task %q is unknown to this driver; start or recover it first", id)
	}
	return c, nil
}

// Status returns what the supervisor knows of a task, or NotFound.
func (t *Tasks) Status(ctx context.Context, id string) (supervisor.Status, error) {
	c, err := t.Of(id)
	if err != nil {
		return supervisor.Status{}, err
	}
	return c.Inspect(ctx, id)
}

func (t *Tasks) learn(id string, c *supervisor.Client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[id] = c
	t.version++
}

// Start starts a task and returns its handle. A driver's StartTask must have called
// Starting.
func (t *Tasks) Start(ctx context.Context, spec supervisor.Spec) (*driver.Handle, error) {
	c, err := t.client(ctx, t.dir)
	if err != nil {
		return nil, err
	}
	spec.Plugin = t.plugin
	ctx, cancel := t.startContext(ctx, spec.ID)
	defer cancel()
	status, err := c.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	t.learn(spec.ID, c)
	return newHandle(spec.ID, handleState{Dir: t.dir, PID: status.PID})
}

// RecoverTask implements driver.Driver.
func (t *Tasks) RecoverTask(ctx context.Context, handle *driver.Handle) error {
	if _, err := t.Of(handle.TaskID); err == nil {
		return nil
	}
	var state handleState
	if handle.Version < 1 || handle.Version > handleVersion {
		return errdefs.InvalidArgumentf("recover task %q: handle version %d is not known to this driver; install the plugin that made it", handle.TaskID, handle.Version)
	}
	if err := json.Unmarshal(handle.State, &state); err != nil || state.Dir == "" {
		return errdefs.InvalidArgumentf("recover task %q: its handle belongs to another driver", handle.TaskID)
	}
	c, err := t.client(ctx, state.Dir)
	if err != nil {
		return errdefs.Unavailablef("recover task %q: %w", handle.TaskID, err)
	}
	if _, err := c.Inspect(ctx, handle.TaskID); err != nil {
		return err
	}
	t.learn(handle.TaskID, c)
	return nil
}

func exitResult(e *supervisor.Exit) driver.ExitResult {
	r := driver.ExitResult{ExitCode: e.Code, Signal: e.Signal, OOMKilled: e.OOM}
	if e.Unknown != "" {
		r.Err = "exit code unknown: " + e.Unknown
	}
	return r
}

// WaitTask implements driver.Driver.
func (t *Tasks) WaitTask(ctx context.Context, id string) (driver.ExitResult, error) {
	c, err := t.Of(id)
	if err != nil {
		return driver.ExitResult{}, err
	}
	status, err := c.Wait(ctx, id)
	if err != nil {
		return driver.ExitResult{}, err
	}
	return exitResult(status.Exit), nil
}

// StopTask implements driver.Driver.
func (t *Tasks) StopTask(ctx context.Context, id string, timeout time.Duration, name string) error {
	c, err := t.Of(id)
	if err != nil {
		return err
	}
	sig, err := SignalNumber(name, defaultStopSignal)
	if err != nil {
		return err
	}
	if err := thaw(ctx, c, id); err != nil {
		return err
	}
	_, err = c.Stop(ctx, id, sig, timeout)
	return err
}

// Arm makes the supervisor kill the task after timeout, even if this process ends,
// and waits until the task has ended. It is for drivers that stop a task by other
// means than a signal.
func (t *Tasks) Arm(ctx context.Context, id string, timeout time.Duration) error {
	c, err := t.Of(id)
	if err != nil {
		return err
	}
	const none = 0 // signal 0, which only checks that the process exists
	_, err = c.Stop(ctx, id, none, timeout)
	return err
}

// SignalTask implements driver.Driver.
func (t *Tasks) SignalTask(ctx context.Context, id string, name string) error {
	c, err := t.Of(id)
	if err != nil {
		return err
	}
	sig, err := SignalNumber(name, "")
	if err != nil {
		return err
	}
	return c.Signal(ctx, id, sig)
}

// DestroyTask implements driver.Driver. It first gives up a start in progress, so
// that the start does not reach the supervisor after the destroy request. Tasks that an
// earlier process of the plugin started are found by their id, because the supervisor
// outlives the plugin.
func (t *Tasks) DestroyTask(ctx context.Context, ref driver.TaskRef, force bool) error {
	if err := t.giveUpStart(ctx, ref.ID, force); err != nil {
		return err
	}
	return t.Destroy(ctx, ref.ID, force)
}

// Destroy does the same without giving up a start. A StartTask calls it to destroy
// what it has started.
func (t *Tasks) Destroy(ctx context.Context, id string, force bool) error {
	c, err := t.Of(id)
	if errdefs.IsNotFound(err) {
		// An earlier plugin process may have started it and died before the agent got the
		// handle.
		c, err = t.client(ctx, t.dir)
	}
	if err == nil {
		err = c.Destroy(ctx, id, force)
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, id)
	delete(t.processes, id)
	t.version++
	return nil
}

// InspectTask implements driver.Driver.
func (t *Tasks) InspectTask(ctx context.Context, id string) (*driver.TaskStatus, error) {
	s, err := t.Status(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &driver.TaskStatus{
		ID: id, State: driver.TaskRunning, StartedAt: s.StartedAt, ExitedAt: s.EndedAt,
		Attributes: map[string]string{"pid": strconv.Itoa(s.PID)},
	}
	if s.DroppedLogBytes > 0 {
		out.Attributes["dropped_log_bytes"] = strconv.FormatUint(s.DroppedLogBytes, 10)
		out.Attributes["log_error"] = s.LogError
	}
	switch {
	case s.Exit != nil:
		r := exitResult(s.Exit)
		out.State, out.Exit = driver.TaskExited, &r
	case s.Ending:
		out.State = driver.TaskUnknown
	default:
		out.Paused = Paused(s)
	}
	return out, nil
}

// ListTasks implements driver.Lister. It returns all tasks of this plugin, including
// those that earlier processes started.
func (t *Tasks) ListTasks(ctx context.Context) ([]*driver.Handle, error) {
	if some, err := supervisor.HasTasks(t.dir); err != nil || !some {
		return nil, err // no supervisor is started only for this
	}
	c, err := t.client(ctx, t.dir)
	if err != nil {
		return nil, err
	}
	list, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	var out []*driver.Handle
	for _, s := range list {
		if s.Plugin != t.plugin {
			continue // a record from before supervisors stored the plugin
		}
		h, err := newHandle(s.ID, handleState{Dir: t.dir, PID: s.PID})
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return out, nil
}

// sample is a measurement of a task with its time.
type sample struct {
	at    time.Time
	usage supervisor.Usage
}

// TaskStats implements driver.Driver. It measures all running tasks in one pass per
// interval.
func (t *Tasks) TaskStats(ctx context.Context, interval time.Duration) (<-chan []driver.TaskStats, error) {
	m := &meter{tasks: t, sampler: supervisor.NewSampler(), last: map[string]sample{}}
	return driver.Every(ctx, interval, m.measure)
}

// Running lists the running tasks of this driver, without those whose supervisor
// does not answer.
func (t *Tasks) Running(ctx context.Context) []supervisor.Status {
	t.mu.Lock()
	clients := make([]*supervisor.Client, 0, len(t.clients))
	for _, c := range t.clients {
		clients = append(clients, c)
	}
	t.mu.Unlock()
	var running []supervisor.Status
	for _, c := range clients {
		list, err := c.List(ctx)
		if err != nil {
			continue // it does not run now
		}
		for _, s := range list {
			if owner, err := t.Of(s.ID); err == nil && owner == c && s.Exit == nil {
				running = append(running, s)
			}
		}
	}
	return running
}

// relist is the number of samples after which the supervisors are asked for the
// running tasks even if nothing seems to have changed.
const relist = 10

// meter measures the tasks of a driver for one listener.
type meter struct {
	tasks   *Tasks
	sampler *supervisor.Sampler
	last    map[string]sample

	running []supervisor.Status
	version int // version of known at that time
	age     int // number of samples since then
}

// list asks the supervisors for the running tasks.
func (m *meter) list(ctx context.Context) {
	m.tasks.mu.Lock()
	m.version = m.tasks.version
	m.tasks.mu.Unlock()
	m.running, m.age = m.tasks.Running(ctx), 0
}

// current reports whether the list of running tasks still seems to be correct. It
// does not ask the supervisors.
func (m *meter) current() bool {
	m.tasks.mu.Lock()
	defer m.tasks.mu.Unlock()
	return m.age > 0 && m.age < relist && m.version == m.tasks.version
}

// measure takes one sample. It asks supervisors for the running tasks only if the
// list may have changed, because for them the list costs as much as the sample costs
// this process.
func (m *meter) measure(ctx context.Context) []driver.TaskStats {
	listed := !m.current()
	if listed {
		m.list(ctx)
	}
	m.age++
	usage := m.sampler.Measure(m.running)
	if !listed && m.sampler.Ended(m.running) {
		m.list(ctx)
		usage = m.sampler.Measure(m.running)
	}
	now := time.Now()
	batch := make([]driver.TaskStats, 0, len(usage))
	for _, s := range m.running {
		u, ok := usage[s.ID]
		if !ok {
			continue
		}
		before, ok := m.last[s.ID]
		if !ok {
			before.at = s.StartedAt
		}
		batch = append(batch, taskStats(s.ID, before, sample{now, u}))
		m.last[s.ID] = sample{now, u}
	}
	for id := range m.last {
		if _, ok := usage[id]; !ok {
			delete(m.last, id)
		}
	}
	return batch
}

func taskStats(id string, before, now sample) driver.TaskStats {
	user := percent(now.usage.User-before.usage.User, now.at.Sub(before.at))
	system := percent(now.usage.System-before.usage.System, now.at.Sub(before.at))
	out := driver.TaskStats{
		TaskID: id, Time: now.at,
		CPU: driver.CPUStats{
			Percent: user + system, UserMode: user, SystemMode: system,
			Measured: []string{"Percent", "System Mode", "User Mode"},
		},
		Memory: driver.MemoryStats{RSS: now.usage.RSS, Usage: now.usage.RSS, Measured: []string{"RSS", "Usage"}},
		IO:     taskIO(now.usage), Processes: uint64(len(now.usage.PIDs)),
	}
	if g := now.usage.Group; g != nil {
		out.CPU.ThrottledPeriods, out.CPU.ThrottledTime = g.ThrottledPeriods, uint64(g.ThrottledTime)
		out.CPU.Measured = append(out.CPU.Measured, "Throttled Periods", "Throttled Time")
		out.Memory = driver.MemoryStats{
			RSS: g.RSS, Cache: g.Cache, Swap: g.Swap, MappedFile: g.MappedFile, Usage: g.Memory, MaxUsage: g.MaxMemory, KernelUsage: g.Kernel,
			Measured: []string{"RSS", "Cache", "Swap", "Mapped File", "Usage", "Max Usage", "Kernel Usage"},
		}
	}
	return out
}

func taskIO(u supervisor.Usage) driver.IOStats {
	switch {
	case u.Group != nil && u.Group.IO != nil:
		x := u.Group.IO
		return driver.IOStats{ReadBytes: x.ReadBytes, WrittenBytes: x.WrittenBytes, Reads: x.Reads, Writes: x.Writes, Measured: driver.IOMeasures}
	case u.IO != nil:
		return driver.IOStats{ReadBytes: u.IO.Read, WrittenBytes: u.IO.Written, Measured: driver.IOMeasures[:2]}
	}
	return driver.IOStats{}
}

func percent(used, over time.Duration) float64 {
	if over <= 0 {
		return 0
	}
	return max(100*float64(used)/float64(over), 0)
}
