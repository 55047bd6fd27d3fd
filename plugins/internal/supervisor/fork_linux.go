// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plugins/internal/cgroup"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/isolation"
)

// fork starts a task that is not isolated.
func (l *loop) fork(t *task, req *request, files [3]int) error {
	spec := req.Spec
	err := isolation.Within(spec.CgroupDirs, spec.NetworkNS, func(unified int) error {
		return l.forkInto(t, req, files, unified)
	})
	var command *isolation.CommandError
	switch {
	case errors.As(err, &command):
		err = errdefs.InvalidArgumentf("start task %q: %w", t.id, err)
	case err != nil && errdefs.ClassOf(err) == errdefs.Internal: // the error is not caused by the task's config
		err = errdefs.FailedPreconditionf("start task %q: %w", t.id, err)
	}
	return err
}

// forkInto forks into the v2 cgroup that is open as unified. If the spec names no
// cgroup it creates one for the task, which keeps all its processes together.
func (l *loop) forkInto(t *task, req *request, files [3]int, unified int) error {
	spec := req.Spec
	if unified < 0 {
		t.cgroup, unified = taskCgroup(l.cgroups, t.key)
		defer closeFD(unified)
	}
	if err := cgroup.BindCores(t.cgroup, spec.Cores); err != nil {
		return errdefs.InvalidArgumentf("start task %q: %w", t.id, err)
	}
	back, err := onCores(spec.Cores)
	if err != nil {
		return errdefs.InvalidArgumentf("start task %q: %w", t.id, err)
	}
	defer back()
	if len(spec.Cores) == 0 && len(spec.Shared) > 0 && t.cgroup != "" {
		defer l.share(t, spec.Shared)()
	}
	err = l.begin(t, req, files, unified)
	if err != nil && t.pid == 0 && t.cgroup != "" {
		// The task runs without a cgroup of its own.
		_ = os.Remove(t.cgroup)
		t.cgroup = ""
		err = l.begin(t, req, files, -1)
	}
	return err
}

// begin forks a process and waits until it has become the task. t.pid is 0 if no
// process was created.
func (l *loop) begin(t *task, req *request, files [3]int, cgroup int) error {
	spec := req.Spec
	hold := l.hold(t, req)
	p := isolation.Process{Args: spec.Args, Env: spec.environ(), Files: files}
	plain := isolation.Plain{Path: spec.Path, Dir: spec.Dir, Mounts: spec.Mounts}
	if u := spec.User; u != nil {
		plain.User = &isolation.User{UID: u.UID, GID: u.GID, Groups: u.Groups}
	}
	_, err := isolation.Fork(plain, cgroup, p, hold)
	if errors.Is(err, isolation.ErrNoPrograms) && len(spec.Mounts) == 0 {
		err = l.forkFree(t, spec, files, cgroup, hold)
	}
	if err != nil {
		t.pidfd = -1
		return l.forkError(t, spec, err)
	}
	return nil
}

// forkFree starts a task on a machine that cannot hold a process at a gate, so the
// task runs before it is recorded. If the supervisor is killed in between, the task
// is killed and started again.
func (l *loop) forkFree(t *task, spec *Spec, files [3]int, cgroup int, hold isolation.Hold) error {
	s := isolation.Started{PIDFD: -1, InitFD: -1}
	attr := &syscall.ProcAttr{Dir: spec.Dir, Env: spec.environ(), Sys: &syscall.SysProcAttr{
		Setsid: true, UseCgroupFD: cgroup >= 0, CgroupFD: cgroup, PidFD: &s.PIDFD,
	}}
	for _, fd := range files {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	if u := spec.User; u != nil {
		attr.Sys.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups, NoSetGroups: os.Geteuid() != 0}
	}
	var err error
	if s.PID, err = syscall.ForkExec(spec.Path, spec.Args, attr); err != nil {
		return isolation.Refused(spec.Path, spec.Args, spec.environ(), err)
	}
	if s.PIDFD < 0 {
		s.PIDFD, err = unix.PidfdOpen(s.PID, 0)
	}
	if err == nil {
		err = hold.Write(s)
	}
	if err != nil {
		// Without a record nobody would find the process again, so it is killed.
		t.pid, t.pidfd = s.PID, s.PIDFD
		l.kill(t)
		reap(t.pid)
		closeFD(s.PIDFD)
	}
	return err
}

// share has a task that is forked next run on cores that it shares with others, and returns a
// function that undoes what this did to the calling thread. It is no failure if the machine
// cannot do that: the task then runs on all cores.
func (l *loop) share(t *task, cores []int) (back func()) {
	back = func() {}
	var err error
	if cgroup.HasCores(t.cgroup) {
		err = cgroup.BindCores(t.cgroup, cores)
	} else if on, failed := onCores(cores); failed == nil {
		back = on
	} else {
		err = failed
	}
	if err != nil {
		l.log.Warn("a task runs on all cores, also on those that others have reserved", "task", t.id, "error", err)
	}
	return back
}

// onCores binds the calling thread to cores, so that a process that it forks is
// bound from its first instruction on. It returns a function that undoes this.
func onCores(cores []int) (back func(), err error) {
	if len(cores) == 0 {
		return func() {}, nil
	}
	var before, set unix.CPUSet
	for _, c := range cores {
		set.Set(c)
	}
	runtime.LockOSThread()
	err = unix.SchedGetaffinity(0, &before)
	if err == nil {
		err = unix.SchedSetaffinity(0, &set)
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("use the cores %v only: %w; they must exist and be free for the agent to use", cores, err)
	}
	return func() {
		if unix.SchedSetaffinity(0, &before) == nil {
			runtime.UnlockOSThread() // otherwise the thread keeps its affinity and ends with this goroutine
		}
	}, nil
}

func (l *loop) forkError(t *task, spec *Spec, err error) error {
	switch {
	case errdefs.ClassOf(err) != errdefs.Internal:
		return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("start task %q: %w", t.id, err))
	case errors.Is(err, isolation.ErrVanished), errors.Is(err, syscall.ETIMEDOUT):
		return errdefs.Unavailablef("start task %q: run %s: %w; try again", t.id, spec.Path, err)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOSPC):
		return errdefs.ResourceExhaustedf("start task %q: run %s: %w; free memory or disk, or raise the limit of processes or open files", t.id, spec.Path, err)
	case errors.Is(err, syscall.ETXTBSY):
		return errdefs.Unavailablef("start task %q: run %s: %w; the file is still being written, try again", t.id, spec.Path, err)
	}
	groups := ""
	if len(spec.CgroupDirs) > 0 {
		groups = fmt.Sprintf(", and that processes may be put into the cgroups %v", spec.CgroupDirs)
	}
	return errdefs.InvalidArgumentf("start task %q: run %s in %s: %w; check that both exist, that the program is made for this machine, and that the task's user may use them%s", t.id, spec.Path, spec.Dir, err, groups)
}

// place applies settings that can be set only from outside the new process.
func place(pid int, spec *Spec) error {
	p := strconv.Itoa(pid)
	if spec.OOMScoreAdj != nil {
		err := os.WriteFile("/proc/"+p+"/oom_score_adj", []byte(strconv.Itoa(*spec.OOMScoreAdj)), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("set oom_score_adj to %d: %w", *spec.OOMScoreAdj, err)
		}
	}
	return nil
}
