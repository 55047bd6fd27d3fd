// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-project/drover/plugins/internal/supervised"
	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

// StartTask implements driver.Driver. It returns when QEMU has created the VM and
// runs it, or fails with QEMU's message.
func (d *Driver) StartTask(ctx context.Context, task *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	return d.begin(ctx, task, nil)
}

// begin starts a VM, from its beginning or from a checkpoint.
func (d *Driver) begin(ctx context.Context, task *driver.TaskConfig, from *checkpoint) (*driver.Handle, *driver.NetworkOverride, error) {
	ctx, ended, err := d.Starting(ctx, task.ID)
	if err != nil {
		return nil, nil, err
	}
	defer ended()
	if unavailable != "" {
		return nil, nil, errdefs.Unimplementedf("start task %q: %s", task.ID, unavailable)
	}
	if _, err := d.Of(task.ID); err == nil {
		return nil, nil, errdefs.AlreadyExistsf("start task %q: it exists already; destroy it first", task.ID)
	}
	agent, _ := d.agent.Get()
	l, err := d.plan(ctx, task, agent, from)
	if err != nil {
		return nil, nil, err
	}
	spec, err := l.spec(task)
	if err != nil {
		return nil, nil, errdefs.InvalidArgumentf("task %q: %w", task.Name, err)
	}
	if err := os.MkdirAll(l.RunDir, 0o700); err != nil {
		return nil, nil, errdefs.Unavailablef("start task %q: make the directory of its machine: %w", task.ID, err)
	}
	words := openWords(task)
	handle, err := d.Start(ctx, spec)
	if err == nil {
		d.learn(task.ID, l)
		err = d.confirm(ctx, task.ID, l, words)
	} else if !errdefs.IsAlreadyExists(err) {
		err = errors.Join(err, os.RemoveAll(l.RunDir))
	}
	return handle, nil, err
}

// plan converts a task's config to a launch and does all checks that are possible
// before the start.
func (d *Driver) plan(ctx context.Context, task *driver.TaskConfig, agent agentConfig, from *checkpoint) (*launch, error) {
	var c taskConfig
	if err := schema.Unmarshal(task.DriverConfig, &c); err != nil {
		return nil, err
	}
	invalid := func(err error) (*launch, error) {
		var refused *refusedError
		if errors.As(err, &refused) {
			return nil, errdefs.PermissionDeniedf("task %q: %w", task.Name, err)
		}
		return nil, errdefs.InvalidArgumentf("task %q: %w", task.Name, err)
	}
	c.complete()
	if found := c.check(agent); len(found) > 0 {
		return invalid(found[0].err)
	}
	if err := supervised.CheckKillSignal(task); err != nil {
		return invalid(err)
	}
	emulator, err := find(c.Emulator, agent.EmulatorsAllowlist)
	if err != nil {
		return invalid(err)
	}
	if c.Accelerator == acceleratorKVM {
		if why := kvmProblem(); why != "" {
			return nil, errdefs.FailedPreconditionf("task %q: config.accelerator: this node has no kvm: %s; use tcg, or a constraint on nodes that have it", task.Name, why)
		}
	}
	extra, err := parseArgs(c.Args, agent.ArgsAllowlist)
	if err != nil {
		return invalid(err)
	}
	user, err := supervised.ResolveUser(task.User)
	if err != nil {
		return invalid(err)
	}
	same := identity(&c, task, extra)
	if from != nil {
		if same == nil {
			return invalid(errors.New("a task whose args have -machine or -m cannot be restored from a checkpoint"))
		}
		if err := from.fits(*same); err != nil {
			return invalid(err)
		}
		c.MachineType = from.manifest.Machine
	}
	args, err := arguments(&c, task, extra, d.found.features(ctx, emulator))
	if err != nil {
		return invalid(err)
	}
	l := &launch{
		Emulator: emulator, Args: args, TaskDir: task.TaskDir, Roots: append([]string{task.AllocDir}, agent.ImagePaths...),
		Snapshot: extra.has("-snapshot"), Paused: extra.has("-S"), RunDir: d.dirOf(task.ID),
		GuestAgent: c.GuestAgent, Graceful: c.GracefulShutdown, User: user, Machine: same,
	}
	if from != nil {
		l.Incoming = from.state
	}
	if task.Network != nil {
		l.NetworkNS = task.Network.Path
	}
	// The new process does the same. Doing it here too returns errors earlier.
	files, _, err := l.fill()
	files.close()
	if err != nil {
		return nil, fmt.Errorf("task %q: %w", task.Name, err)
	}
	return l, nil
}

// identity returns what a checkpoint records about the VM, or nil if it depends on the args of
// the task.
func identity(c *taskConfig, task *driver.TaskConfig, extra userArgs) *manifest {
	if extra.has("-machine", "-M", "-m") {
		return nil
	}
	devices := fmt.Sprintf("drive_interface=%s accelerator=%s guest_agent=%t cores=%d args=%q", c.DriveInterface, c.Accelerator, c.GuestAgent, len(task.Resources.Cores), c.Args)
	return &manifest{
		Version: manifestVersion, Arch: archOf(c.Emulator), MemoryMB: task.Resources.MemoryMB, Configured: c.MachineType,
		Devices: strings.ReplaceAll(devices, task.AllocDir, "${alloc}"), // differs on each node
	}
}

// spec returns the supervisor's spec: the command is this binary, which becomes the
// emulator.
func (l *launch) spec(task *driver.TaskConfig) (supervisor.Spec, error) {
	logs, err := supervised.Logs(task)
	if err != nil {
		return supervisor.Spec{}, err
	}
	program, err := os.Executable()
	if err != nil {
		return supervisor.Spec{}, fmt.Errorf("find the plugin's own binary: %w", err)
	}
	body, err := json.Marshal(l)
	if err != nil {
		return supervisor.Spec{}, fmt.Errorf("encode how the machine is started: %w", err)
	}
	env := map[string]string{"TMPDIR": filepath.Join(task.TaskDir, "tmp")} // QEMU writes the changes of -snapshot there
	for k, v := range task.Env {
		env[k] = v
	}
	plain, secrets := supervised.Secrets(task, supervised.Environment(env, nil), nil)
	return supervisor.Spec{
		ID: task.ID, Path: program, Args: []string{os.Args[0], hiddenArgument, string(body)}, Dir: task.TaskDir,
		Env: plain, Secrets: secrets, Logs: logs, Cores: task.Resources.Cores,
	}, nil
}

const (
	// confirmLimit is the time limit for QEMU's monitor to answer.
	confirmLimit = 25 * time.Second
	// confirmEvery is the interval between attempts.
	confirmEvery = 20 * time.Millisecond
	// loadLimit is the time limit for QEMU to read a checkpoint, unless the host has less.
	loadLimit = 30 * time.Minute
)

// confirm waits until the VM's monitor answers, and then resumes the VM. On failure
// it kills the VM and returns an error with QEMU's output.
func (d *Driver) confirm(ctx context.Context, id string, l *launch, w words) error {
	limit := confirmLimit
	if l.Incoming != "" {
		limit = loadLimit
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ended := make(chan driver.ExitResult, 1)
	go func() {
		if r, err := d.WaitTask(limited, id); err == nil {
			ended <- r
		}
	}()
	var failure error
	for failure == nil {
		m, err := openQMP(limited, l)
		if err == nil {
			err = m.release(l)
			m.close()
		}
		switch {
		case err == nil:
			return nil
		case errdefs.IsPermissionDenied(err):
			failure = errdefs.PermissionDeniedf("start task %q: %w", id, err)
			continue
		}
		select {
		case r := <-ended:
			// The cause may be temporary, such as a port or an image in use.
			failure = errdefs.WithRetryable(errdefs.FailedPreconditionf("start task %q: QEMU ended at once with exit code %d%s", id, r.ExitCode, w.since()), true)
		case <-limited.Done():
			failure = errdefs.Unavailablef("start task %q: the machine's monitor does not answer: %w (%w)%s", id, err, limited.Err(), w.since())
		case <-time.After(confirmEvery):
		}
	}
	full, done := context.WithTimeout(context.WithoutCancel(ctx), confirmLimit)
	defer done()
	if err := d.Destroy(full, id, true); err != nil {
		return errors.Join(failure, err)
	}
	return errors.Join(failure, d.forget(id))
}
