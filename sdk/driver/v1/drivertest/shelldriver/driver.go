// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

// Package shelldriver is a small but complete task driver: each task is a shell script
// that outlives the driver's process. It owns no part of the contract. It is the
// subject of drivertest's own tests and of tests of core/pluginhost, and an example
// for authors. It has no log rotation and no isolation, so only tests and examples may
// import it.
package shelldriver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

// Driver runs shell scripts. New makes one.
type Driver struct {
	name  string
	mu    sync.Mutex
	tasks map[string]*task
}

// task is one script: its process group, and the file that receives its exit code.
type task struct {
	PID       int
	ExitFile  string
	Begun     begun
	StartedAt time.Time
	Env       []string
	Dir       string
	Cgroup    *driver.Cgroup
	// secrets are for commands of ExecTask. They are not in the handle: a later process of
	// the driver does not have them.
	secrets []string
}

// New returns a driver with the given name and no tasks.
func New(name string) *Driver { return &Driver{name: name, tasks: map[string]*task{}} }

// Info implements driver.Driver.
func (d *Driver) Info() driver.Info {
	return driver.Info{
		Name: d.name,
		Capabilities: driver.Capabilities{
			SendSignals: true, Exec: true, FSIsolation: driver.FSIsolationNone, NetworkModes: []driver.NetworkMode{driver.NetworkHost},
			HostCgroup: driver.HostCgroupLimited, SecretEnv: true,
			Ignores:     []string{driver.IgnoresUser, driver.IgnoresCores, driver.IgnoresMemoryMax, driver.IgnoresDNS},
			ExecOptions: []string{driver.ExecDirectory, driver.ExecEnvironment},
		},
		ConfigSchema: schema.Schema{Attributes: []schema.Attribute{
			{Name: "greeting", Type: schema.String, Default: "hello", Description: "shown in the health description"},
		}},
		TaskConfigSchema: schema.Schema{Attributes: []schema.Attribute{
			{Name: "script", Type: schema.String, Required: true, Description: "what /bin/sh runs"},
		}},
	}
}

// SetConfig implements driver.Driver.
func (d *Driver) SetConfig(_ context.Context, config []byte) error {
	var c struct {
		Greeting string `json:"greeting"`
	}
	return schema.Unmarshal(config, &c)
}

// Fingerprint implements driver.Driver.
func (d *Driver) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	out := make(chan driver.Fingerprint, 1)
	out <- driver.Fingerprint{Attributes: map[string]string{"driver." + d.name: "1"}, Health: driver.HealthHealthy, HealthDescription: "Healthy"}
	go func() {
		<-ctx.Done()
		close(out)
	}()
	return out, nil
}

// wrapper runs the script in $1 and writes its exit code to the file $2. It survives
// the signals that end the script, so that it can write the code. It may run only if it
// can rename the file $3: see begun.
const wrapper = `trap : TERM INT HUP QUIT USR1 USR2
echo $$ > "$3.pid" && mv "$3" "$3.begun" 2>/dev/null || exit 1
/bin/sh -c "$1"
code=$?
echo $code > "$2.tmp" && mv "$2.tmp" "$2"`

// StartTask implements driver.Driver.
func (d *Driver) StartTask(_ context.Context, config *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	c, found, err := parse(config.DriverConfig)
	if err != nil {
		return nil, nil, err
	}
	if err := driver.Refusal(found); err != nil {
		return nil, nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tasks[config.ID] != nil {
		return nil, nil, errdefs.AlreadyExistsf("task %q is known already; destroy it first", config.ID)
	}
	if earlier, err := interrupted(config.Ref()); err != nil || len(earlier) > 0 {
		return nil, nil, errors.Join(err, errdefs.AlreadyExistsf("an earlier process began task %q; destroy it first", config.ID))
	}
	t := &task{ExitFile: filepath.Join(config.TaskDir, ".exit-"+filepath.Base(config.ID)), StartedAt: time.Now(), Dir: config.TaskDir, Cgroup: config.Cgroup}
	if t.Begun, err = begin(config.Ref()); err != nil {
		return nil, nil, errdefs.FailedPreconditionf("record the start: %w", err)
	}
	cmd := exec.Command("/bin/sh", "-c", wrapper, "sh", c.Script, t.ExitFile, string(t.Begun))
	for k, v := range config.Env {
		t.Env = append(t.Env, k+"="+v)
	}
	for k, v := range config.SecretEnv {
		t.secrets = append(t.secrets, k+"="+v)
	}
	cmd.Env, cmd.Dir = slices.Concat(t.Env, t.secrets), t.Dir // if a name occurs twice, the last value counts
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	closeLogs, err := openLogs(cmd, config.Logs)
	if err != nil {
		t.Begun.end()
		return nil, nil, err
	}
	defer closeLogs()
	if err := config.Cgroup.Start(cmd); err != nil {
		t.Begun.end()
		return nil, nil, errdefs.FailedPreconditionf("start the shell: %w", err)
	}
	// Reap the process. The exit code is read from the file, since another process of
	// this driver may have started the task.
	go func() { _ = cmd.Wait() }()
	t.PID = cmd.Process.Pid
	state, err := json.Marshal(t)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the handle: %w", err)
	}
	d.tasks[config.ID] = t
	return &driver.Handle{TaskID: config.ID, Version: 1, State: state}, nil, nil
}

func openLogs(cmd *exec.Cmd, logs driver.LogConfig) (closeAll func(), err error) {
	if logs.Disabled {
		return func() {}, nil
	}
	const flags = os.O_CREATE | os.O_WRONLY | os.O_APPEND | syscall.O_NOFOLLOW
	stdout, err := os.OpenFile(logs.StdoutPath+".0", flags, 0o600)
	if err != nil {
		return nil, errdefs.FailedPreconditionf("open the log: %w", err)
	}
	stderr, err := os.OpenFile(logs.StderrPath+".0", flags, 0o600)
	if err != nil {
		return nil, errdefs.FailedPreconditionf("open the log: %w", errors.Join(err, stdout.Close()))
	}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return func() { _, _ = stdout.Close(), stderr.Close() }, nil
}

// RecoverTask implements driver.Driver.
func (d *Driver) RecoverTask(_ context.Context, handle *driver.Handle) error {
	if handle.Version != 1 {
		return errdefs.InvalidArgumentf("handle of version %d: this driver reads version 1", handle.Version)
	}
	var t task
	if err := json.Unmarshal(handle.State, &t); err != nil {
		return errdefs.InvalidArgumentf("decode the handle: %w", err)
	}
	if _, ended := t.result(); ended {
		if _, err := os.Stat(t.ExitFile); err != nil {
			return errdefs.NotFoundf("task %q is gone and left no exit code", handle.TaskID)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tasks[handle.TaskID] == nil {
		d.tasks[handle.TaskID] = &t
	}
	return nil
}

func (d *Driver) task(id string) (*task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.tasks[id]; t != nil {
		return t, nil
	}
	return nil, errdefs.NotFoundf("task %q is unknown; start or recover it first", id)
}

// result returns the task's exit result, and false while it runs.
func (t *task) result() (driver.ExitResult, bool) {
	alive := syscall.Kill(t.PID, 0) == nil
	body, err := os.ReadFile(t.ExitFile)
	if err == nil {
		code, err := strconv.Atoi(strings.TrimSpace(string(body)))
		if err != nil {
			return driver.ExitResult{ExitCode: -1, Err: "exit code unknown: " + err.Error()}, true
		}
		r := driver.ExitResult{ExitCode: code}
		if code > 128 && code < 128+65 {
			r.Signal = code - 128
		}
		return r, true
	}
	if alive {
		return driver.ExitResult{}, false
	}
	// Only SIGKILL ends the wrapper before it has written the file.
	return driver.ExitResult{ExitCode: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL)}, true
}

// poll is the interval at which a task is checked: good enough for an example.
const poll = 10 * time.Millisecond

func (t *task) wait(ctx context.Context) (driver.ExitResult, error) {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		if r, ended := t.result(); ended {
			return r, nil
		}
		select {
		case <-ctx.Done():
			return driver.ExitResult{}, ctx.Err()
		case <-ticker.C:
		}
	}
}

// WaitTask implements driver.Driver.
func (d *Driver) WaitTask(ctx context.Context, id string) (driver.ExitResult, error) {
	t, err := d.task(id)
	if err != nil {
		return driver.ExitResult{}, err
	}
	return t.wait(ctx)
}

// StopTask implements driver.Driver.
func (d *Driver) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	if signal == "" {
		signal = "SIGTERM"
	}
	if err := t.signal(signal); err != nil && !errdefs.IsFailedPrecondition(err) {
		return err
	}
	if err := t.Cgroup.Thaw(); err != nil {
		return err
	}
	// Carry out the kill even if ctx ends.
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		// The script may end and leave children behind, so kill the process group in
		// any case, once the script has ended or its time is up.
		_, _ = t.wait(grace)
		_ = syscall.Kill(-t.PID, syscall.SIGKILL) // an error means that no process is left
	}()
	select {
	case <-killed:
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err = t.wait(ctx)
	return err
}

var signals = map[string]syscall.Signal{
	"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT, "SIGHUP": syscall.SIGHUP, "SIGQUIT": syscall.SIGQUIT,
	"SIGKILL": syscall.SIGKILL, "SIGUSR1": syscall.SIGUSR1, "SIGUSR2": syscall.SIGUSR2,
}

func (t *task) signal(name string) error {
	sig, ok := signals[name]
	if !ok {
		return errdefs.InvalidArgumentf("unknown signal %q", name)
	}
	if _, ended := t.result(); ended {
		return errdefs.FailedPreconditionf("the task has ended")
	}
	if err := syscall.Kill(-t.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return errdefs.Internalf("send %s: %w", name, err)
	}
	return nil
}

// SignalTask implements driver.Driver.
func (d *Driver) SignalTask(_ context.Context, id string, signal string) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	return t.signal(signal)
}

// DestroyTask implements driver.Driver.
func (d *Driver) DestroyTask(ctx context.Context, ref driver.TaskRef, force bool) error {
	t, err := d.task(ref.ID)
	if err != nil {
		return destroyInterrupted(ref, force)
	}
	if _, ended := t.result(); !ended {
		if !force {
			return errdefs.FailedPreconditionf("task %q still runs; stop it first or use force", ref.ID)
		}
		_ = syscall.Kill(-t.PID, syscall.SIGKILL) // an error means that the task has just ended
		if err := t.Cgroup.Thaw(); err != nil {
			return err
		}
		if _, err := t.wait(ctx); err != nil {
			return err
		}
	}
	_ = syscall.Kill(-t.PID, syscall.SIGKILL) // kills children that the script left behind
	t.Begun.end()
	_ = os.Remove(t.ExitFile) // it may never have been written
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tasks, ref.ID)
	return nil
}

// InspectTask implements driver.Driver.
func (d *Driver) InspectTask(_ context.Context, id string) (*driver.TaskStatus, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	s := &driver.TaskStatus{ID: id, State: driver.TaskRunning, StartedAt: t.StartedAt, Attributes: map[string]string{"pid": strconv.Itoa(t.PID)}}
	s.Paused = t.Cgroup.Frozen()
	if r, ended := t.result(); ended {
		s.Paused = false
		s.State, s.Exit = driver.TaskExited, &r
		if info, err := os.Stat(t.ExitFile); err == nil {
			s.ExitedAt = info.ModTime()
		}
	}
	return s, nil
}

// UpdateTask implements driver.Updater. The cgroup of the host enforces the resources, and
// keeps the new ones across a restart of this process.
func (d *Driver) UpdateTask(_ context.Context, id string, r driver.Resources) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	if _, ended := t.result(); ended {
		return errdefs.FailedPreconditionf("task %q has ended", id)
	}
	return t.Cgroup.Update(r)
}
