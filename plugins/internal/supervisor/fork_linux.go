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

	"github.com/drover-project/drover/plugins/internal/sandbox"
	"github.com/drover-project/drover/sdk/errdefs"
)

func (l *loop) fork(t *task, spec *Spec, files []uintptr) error {
	attr := &syscall.ProcAttr{Dir: spec.Dir, Env: spec.Env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true}}
	if u := spec.User; u != nil {
		attr.Sys.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups, NoSetGroups: os.Geteuid() != 0}
	}
	attr.Sys.PidFD = &t.pidfd
	var pid int
	err := sandbox.Within(spec.CgroupDirs, spec.NetworkNS, func(unified int) (err error) {
		pid, err = l.forkInto(t, spec, attr, unified)
		return err
	})
	var command *sandbox.CommandError
	switch {
	case errors.As(err, &command):
		err = errdefs.InvalidArgumentf("start task %q: %w", t.id, err)
	case err != nil && errdefs.ClassOf(err) == errdefs.Internal: // what comes from no task's config
		err = errdefs.FailedPreconditionf("start task %q: %w", t.id, err)
	}
	if err != nil {
		t.pidfd = -1
		return err
	}
	t.pid = pid
	if t.pidfd < 0 {
		if t.pidfd, err = unix.PidfdOpen(pid, 0); err != nil {
			l.kill(t)
			reap(pid)
			return fmt.Errorf("start task %q: open its pidfd (Linux 5.4 or later is needed): %w", t.id, err)
		}
	}
	return nil
}

// forkInto forks into the cgroup of version 2 that is open as unified, or into a new
// one of the task's own if it names none: that holds all its processes together.
func (l *loop) forkInto(t *task, spec *Spec, attr *syscall.ProcAttr, unified int) (int, error) {
	if unified < 0 {
		t.cgroup, unified = taskCgroup(l.cgroups, t.key)
		defer closeFD(unified)
	}
	attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = unified >= 0, unified
	if err := sandbox.BindCores(t.cgroup, spec.Cores); err != nil {
		return 0, errdefs.InvalidArgumentf("start task %q: %w", t.id, err)
	}
	back, err := onCores(spec.Cores)
	if err != nil {
		return 0, errdefs.InvalidArgumentf("start task %q: %w", t.id, err)
	}
	defer back()
	pid, err := syscall.ForkExec(spec.Path, spec.Args, attr)
	if err != nil && t.cgroup != "" && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENOEXEC) {
		// A cgroup of its own is a help, not a condition.
		_ = os.Remove(t.cgroup)
		t.cgroup, attr.Sys.UseCgroupFD = "", false
		pid, err = syscall.ForkExec(spec.Path, spec.Args, attr)
	}
	if err != nil {
		return 0, forkError(t.id, spec, err)
	}
	return pid, nil
}

// onCores binds the calling thread to cores, so that what it forks is bound from
// its first instruction on, and returns what undoes it.
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
			runtime.UnlockOSThread() // else the thread stays as it is, and ours alone
		}
	}, nil
}

func forkError(id string, spec *Spec, err error) error {
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return errdefs.ResourceExhaustedf("start task %q: run %s: %w; free memory or raise the limit of processes or open files", id, spec.Path, err)
	case errors.Is(err, syscall.ETXTBSY):
		return errdefs.Unavailablef("start task %q: run %s: %w; somebody still writes it, try again", id, spec.Path, err)
	}
	groups := ""
	if len(spec.CgroupDirs) > 0 {
		groups = fmt.Sprintf(", and that processes may be put into the cgroups %v", spec.CgroupDirs)
	}
	why := sandbox.Refused(spec.Path, spec.Args, spec.Env, err)
	return errdefs.InvalidArgumentf("start task %q: run %s in %s: %w; check that both exist, that the program is made for this machine, and that the task's user may use them%s", id, spec.Path, spec.Dir, why, groups)
}

// place sets what can be set only from outside the new process.
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
