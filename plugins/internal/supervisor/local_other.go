// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package supervisor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/plugins/internal/processtree"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/isolation"
	"github.com/drover-project/drover/sdk/tasklog"
)

// Main does nothing: only on Linux is the supervisor a process of its own. On other
// systems tasks are children of the plugin. If the plugin dies, its tasks are lost
// from view, and Inspect returns NotFound.
func Main() {}

// Client runs tasks as children of this process.
type Client struct {
	mu    sync.Mutex
	tasks map[string]*child
}

type child struct {
	spec   Spec
	cmd    *exec.Cmd
	logs   [2]*output
	logDir *os.Root // nil if logs are disabled
	status Status   // guarded by Client.mu
	ended  chan struct{}
}

// Open returns a client. It does not use dir.
func Open(context.Context, string) (*Client, error) {
	return &Client{tasks: map[string]*child{}}, nil
}

// HasTasks returns false: there is no journal, since tasks are children of the
// plugin.
func HasTasks(string) (bool, error) { return false, nil }

// HangLimits returns arbitrary values, since there is no supervisor process that
// could hang.
func HangLimits() (limit, every time.Duration) { return time.Minute, time.Minute }

// Answers returns nil, since there is no supervisor process.
func (c *Client) Answers(context.Context) error { return nil }

// UpToDate does nothing, since there is no supervisor process.
func (c *Client) UpToDate(context.Context) error { return nil }

// Close does nothing. Tasks keep running.
func (c *Client) Close() error { return nil }

// Start starts a task.
func (c *Client) Start(_ context.Context, spec Spec) (Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.tasks[spec.ID]; ok {
		return Status{}, errdefs.AlreadyExistsf("start task %q: it exists already; destroy it first", spec.ID)
	}
	if len(spec.CgroupDirs) > 0 || spec.OOMScoreAdj != nil || spec.NetworkNS != "" {
		return Status{}, errdefs.InvalidArgumentf("start task %q: cgroups, oom_score_adj and networks of groups are supported on Linux only", spec.ID)
	}
	if spec.Sandbox != nil {
		return Status{}, errdefs.Unimplementedf("start task %q: %s", spec.ID, isolation.Unavailable())
	}
	ch := &child{spec: spec, ended: make(chan struct{})}
	ch.cmd = &exec.Cmd{Path: spec.Path, Args: spec.Args, Env: spec.environ(), Dir: spec.Dir, WaitDelay: time.Second}
	if err := prepare(ch.cmd, spec.User); err != nil {
		return Status{}, err
	}
	if !spec.Logs.Disabled {
		dir, err := tasklog.OpenDir(spec.Logs.Root, filepath.Join(spec.Logs.Root, filepath.FromSlash(spec.Logs.Dir)))
		if err != nil {
			return Status{}, errdefs.FailedPreconditionf("start task %q: %w", spec.ID, err)
		}
		limits := tasklog.Limits{MaxFiles: spec.Logs.MaxFiles, MaxFileBytes: spec.Logs.MaxFileBytes}
		ch.logDir = dir
		ch.logs[0] = &output{w: tasklog.New(dir, spec.Logs.Stdout, limits)}
		ch.logs[1] = &output{w: tasklog.New(dir, spec.Logs.Stderr, limits)}
		ch.cmd.Stdout, ch.cmd.Stderr = ch.logs[0], ch.logs[1]
	}
	if err := ch.cmd.Start(); err != nil {
		ch.closeLogs()
		return Status{}, errdefs.InvalidArgumentf("start task %q: %w", spec.ID, err)
	}
	ch.status = Status{ID: spec.ID, PID: ch.cmd.Process.Pid, StartedAt: time.Now()}
	c.tasks[spec.ID] = ch
	go c.await(ch)
	return ch.status, nil
}

// await waits for a task's end and records it.
func (c *Client) await(ch *child) {
	err := ch.cmd.Wait()
	killTree(ch.cmd) // kill the processes that it left behind
	ch.closeLogs()
	e := Exit{Code: -1}
	if ch.cmd.ProcessState != nil {
		e = exitOf(ch.cmd.ProcessState)
	} else if err != nil {
		e.Unknown = err.Error()
	}
	c.mu.Lock()
	ch.status.Exit, ch.status.EndedAt = &e, time.Now()
	c.mu.Unlock()
	close(ch.ended)
}

func (ch *child) closeLogs() {
	if ch.logDir == nil {
		return
	}
	for _, o := range ch.logs {
		o.close()
	}
	_ = ch.logDir.Close() // the directory was only read
}

// output is one output of a task: the writer and its drop counter.
type output struct {
	mu sync.Mutex
	w  *tasklog.Writer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}

func (o *output) dropped() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Dropped()
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.w.Close()
}

func (c *Client) find(id string) (*child, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := c.tasks[id]
	if ch == nil {
		return nil, errdefs.NotFoundf("task %q is unknown; it was destroyed, or started by a plugin process that has ended", id)
	}
	return ch, nil
}

func (c *Client) statusOf(ch *child) Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := ch.status
	for _, o := range ch.logs {
		if o != nil {
			s.DroppedLogBytes += o.dropped()
		}
	}
	return s
}

// Wait waits until the task has ended.
func (c *Client) Wait(ctx context.Context, id string) (Status, error) {
	ch, err := c.find(id)
	if err != nil {
		return Status{}, err
	}
	select {
	case <-ch.ended:
		return c.statusOf(ch), nil
	case <-ctx.Done():
		return Status{}, ctx.Err()
	}
}

// Stop signals the task, kills it after timeout, and returns when it has ended.
func (c *Client) Stop(ctx context.Context, id string, signal int, timeout time.Duration) (Status, error) {
	ch, err := c.find(id)
	if err != nil {
		return Status{}, err
	}
	// The kill happens even if ctx ends before.
	timer := time.AfterFunc(timeout, func() { killTree(ch.cmd) })
	go func() {
		<-ch.ended
		timer.Stop()
	}()
	if err := signalTree(ch.cmd, signal); err != nil {
		killTree(ch.cmd) // the system does not support the signal
	}
	return c.Wait(ctx, id)
}

// Signal signals the task's main process.
func (c *Client) Signal(_ context.Context, id string, signal int) error {
	ch, err := c.find(id)
	if err != nil {
		return err
	}
	err = signalMain(ch.cmd, signal)
	if errors.Is(err, os.ErrProcessDone) {
		return errdefs.FailedPreconditionf("signal task %q: it has ended", id)
	}
	return err
}

// Destroy forgets a task. With force it first kills a running task.
func (c *Client) Destroy(ctx context.Context, id string, force bool) error {
	ch, err := c.find(id)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if c.statusOf(ch).Exit == nil {
		if !force {
			return errdefs.FailedPreconditionf("destroy task %q: it still runs; stop it first or use force", id)
		}
		killTree(ch.cmd)
		if _, err := c.Wait(ctx, id); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tasks, id)
	return nil
}

// Inspect returns the state of a task.
func (c *Client) Inspect(_ context.Context, id string) (Status, error) {
	ch, err := c.find(id)
	if err != nil {
		return Status{}, err
	}
	return c.statusOf(ch), nil
}

// Spec returns the spec with which a task was started.
func (c *Client) Spec(_ context.Context, id string) (Spec, Status, error) {
	ch, err := c.find(id)
	if err != nil {
		return Spec{}, Status{}, err
	}
	return ch.spec, c.statusOf(ch), nil
}

// List returns all tasks.
func (c *Client) List(context.Context) ([]Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]Status, 0, len(c.tasks))
	for _, ch := range c.tasks {
		list = append(list, ch.status)
	}
	return list, nil
}

// measureLimit bounds one sample: the systems answer for one process at a time.
const measureLimit = 10 * time.Second

// Measure measures all tasks once.
func Measure(tasks []Status) map[string]Usage { return NewSampler().Measure(tasks) }

// Sampler measures tasks repeatedly. It is not safe for concurrent use.
type Sampler struct{ trees *processtree.Sampler }

// NewSampler returns a sampler.
func NewSampler() *Sampler { return &Sampler{trees: processtree.New()} }

// Measure measures all tasks in one pass. A process belongs to a task if it descends from
// the task's first process; one whose parents have ended is not found. Ended tasks are
// absent.
func (s *Sampler) Measure(tasks []Status) map[string]Usage {
	ctx, cancel := context.WithTimeout(context.Background(), measureLimit)
	defer cancel()
	var roots []int
	for i := range tasks {
		if tasks[i].Exit == nil {
			roots = append(roots, tasks[i].PID)
		}
	}
	if len(roots) == 0 {
		return nil
	}
	trees, err := s.trees.Measure(ctx, roots)
	if err != nil {
		return nil // the system does not list its processes now; nothing is reported
	}
	out := make(map[string]Usage, len(trees))
	for i := range tasks {
		if u, ok := trees[tasks[i].PID]; ok && tasks[i].Exit == nil {
			slices.Sort(u.PIDs)
			out[tasks[i].ID] = Usage{User: u.User, System: u.System, RSS: u.RSS, PIDs: u.PIDs}
		}
	}
	return out
}

// Ended reports whether the process of one of the tasks was gone at the last sample.
func (s *Sampler) Ended(tasks []Status) bool {
	return slices.ContainsFunc(tasks, func(t Status) bool { return s.trees.Gone(t.PID) })
}

// OOMKills returns nil, since there is no isolation on this system.
func OOMKills([]Status) map[string]uint64 { return nil }
