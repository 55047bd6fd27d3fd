// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/isolation"
	"github.com/drover-project/drover/sdk/plugin"
)

// Each task runs in a sandbox of sdk/isolation, whose package documentation is the manual:
// a root file system of its own with the machine's programs read-only, and its own pid, ipc
// and mount namespaces. Most of what a task can be refused is decided here.

// process is how any process of this driver finds the task's own ones. Init is process 1 of
// the task's pid namespace: the kernel ends all of the task with it.
type process struct {
	PID, Init int
	Born      string // distinguishes Init from a later process with the same pid
}

// capabilities says what the driver supports.
func capabilities() driver.Capabilities {
	return driver.Capabilities{
		SendSignals: true, Exec: true, FSIsolation: driver.FSIsolationChroot, MountConfigs: true,
		NetworkModes: []driver.NetworkMode{driver.NetworkHost, driver.NetworkGroup},
		HostCgroup:   driver.HostCgroupLimited, // the agent enforces the task's resources: see start
		DefaultUser:  defaultUser, DynamicUsers: true,
	}
}

// defaultUser runs tasks that name none.
const defaultUser = "nobody"

// sandbox returns what the task sees of the machine, and its user.
func sandbox(config *driver.TaskConfig) (*isolation.Config, isolation.User, error) {
	user, err := userOf(config)
	if err != nil {
		return nil, user, errdefs.InvalidArgumentf("user of the task: %w", err)
	}
	box, err := isolation.ForTask(config, filepath.Join(plugin.StateDir(), Name))
	if err != nil {
		return nil, user, err
	}
	box.Scratch, box.Chroot = filepath.Join(stateDir(config.AllocDir, config.ID), "root"), isolation.System()
	box.Bounding, box.Ambient, err = isolation.Capabilities(isolation.DefaultCapabilities(), nil, nil)
	return box, user, err
}

// userOf finds the task's user on the machine.
func userOf(config *driver.TaskConfig) (isolation.User, error) {
	if id := uint32(config.DynamicUID); id != 0 {
		return isolation.User{UID: id, GID: id}, nil
	}
	name := cmp.Or(config.User, defaultUser)
	u, err := user.Lookup(name)
	if _, number := strconv.Atoi(name); err != nil && number == nil {
		u, err = user.LookupId(name)
	}
	if err != nil {
		return isolation.User{}, err
	}
	ids, err := u.GroupIds()
	if err != nil {
		return isolation.User{}, fmt.Errorf("look up the groups of %s: %w", name, err)
	}
	var out isolation.User
	for i, text := range append([]string{u.Uid, u.Gid}, ids...) {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return isolation.User{}, fmt.Errorf("look up %s: %w", name, err)
		}
		switch i {
		case 0:
			out.UID = uint32(id)
		case 1:
			out.GID = uint32(id)
		default:
			out.Groups = append(out.Groups, uint32(id))
		}
	}
	return out, nil
}

// start starts the task's process with the files as its standard input, output and error,
// and returns a function that waits for its end. Its parent, a runner, writes down by record
// how the process is found, before it runs any instruction of the task.
func start(s spec, files [3]*os.File, record func(process) error) (wait func() driver.ExitResult, err error) {
	if err := os.Mkdir(s.Box.Scratch, 0o700); err != nil {
		return nil, err
	}
	s.Box.Command = s.Command
	hold := isolation.Hold{Write: func(started isolation.Started) error {
		return record(process{PID: started.PID, Init: started.Init, Born: born(started.Init)})
	}}
	cgroups := s.Cgroup.Paths() // with the task's limits; it is in them from its first instruction on
	if err := isolation.LimitDevices(cgroups, s.Box.Devices); err != nil {
		return nil, err
	}
	started, err := isolation.Start(s.Box, cgroups, s.process(append([]string{s.Command}, s.Args...), files), hold)
	if err != nil {
		return nil, err
	}
	return func() driver.ExitResult {
		state, err := started.Wait() // then what it has left behind has ended, too
		if state == nil {
			return driver.ExitResult{ExitCode: -1, Err: "exit code unknown: " + err.Error()}
		}
		return exitOf(state)
	}, nil
}

// process returns a process of the task: its own one, or a command in it.
func (s spec) process(args []string, files [3]*os.File) isolation.Process {
	out := isolation.Process{Args: args, Env: s.Env, User: s.User}
	for i, f := range files {
		out.Files[i] = int(f.Fd())
	}
	return out
}

// kill kills all processes of the task. After a reboot, or long after the task's end,
// another process may have the pid.
func (p process) kill() {
	if now := born(p.Init); now != "" && now == p.Born {
		_ = syscall.Kill(p.Init, syscall.SIGKILL) // an error means that it has ended
	}
}

// execute runs a command in the task until it ends, or ctx.
func (p process) execute(ctx context.Context, s spec, command []string, stream driver.ExecStream) (*os.ProcessState, error) {
	target, err := isolation.OpenTarget(p.PID)
	if err != nil {
		return nil, errdefs.FailedPreconditionf("the task has ended: %w", err)
	}
	defer target.Close()
	if born(p.Init) != p.Born { // asked only now: the namespaces are those of the task if it still runs
		return nil, errdefs.FailedPreconditionf("the task has ended")
	}
	ours, theirs, err := pipes()
	if err != nil {
		return nil, errdefs.Internalf("make the command's input and output: %w", err)
	}
	s.Box.Command = command[0]
	joined, err := isolation.Enter(target, s.Box, s.Cgroup.Paths(), s.process(command, theirs), nil)
	for _, f := range theirs {
		_ = f.Close() // the command has its own copy
	}
	if err != nil {
		for _, f := range ours {
			_ = f.Close()
		}
		return nil, errdefs.InvalidArgumentf("run %q: %w", command[0], err)
	}
	return follow(ctx, joined.PID, ours, stream)
}

// follow copies the input and output of a command until it has ended. If ctx ends, it
// kills the command with its children.
func follow(ctx context.Context, pid int, ours [3]*os.File, stream driver.ExecStream) (*os.ProcessState, error) {
	go func() {
		if stream.Stdin != nil {
			_, _ = io.Copy(ours[0], stream.Stdin) // the command may end before its input
		}
		_ = ours[0].Close()
	}()
	var copied sync.WaitGroup
	copied.Go(func() { _, _ = io.Copy(stream.Stdout, ours[1]) })
	copied.Go(func() { _, _ = io.Copy(stream.Stderr, ours[2]) })
	child, err := os.FindProcess(pid)
	if err != nil {
		return nil, errdefs.Internalf("find the command: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-pid, syscall.SIGKILL) })
	state, err := child.Wait()
	stop()
	for _, f := range ours[1:] {
		_ = f.SetReadDeadline(time.Now().Add(time.Second)) // a child may hold the output open
	}
	copied.Wait()
	for _, f := range ours {
		_ = f.Close()
	}
	if err != nil {
		return nil, errdefs.Internalf("wait for the command: %w", err)
	}
	return state, nil
}

// pipes returns both ends of a command's standard input, output and error.
func pipes() (ours, theirs [3]*os.File, err error) {
	for i := range ours {
		r, w, failed := os.Pipe()
		err = errors.Join(err, failed)
		if ours[i], theirs[i] = r, w; i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	return ours, theirs, err
}
