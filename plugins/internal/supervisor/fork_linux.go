// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	var cgroup int
	if len(spec.CgroupDirs) == 0 {
		t.cgroup, cgroup = taskCgroup(l.cgroups, t.key)
		defer closeFD(cgroup)
	}
	attr.Sys.PidFD = &t.pidfd
	attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = t.cgroup != "", cgroup
	if err := sandbox.BindCores(t.cgroup, spec.Cores); err != nil {
		return errdefs.InvalidArgumentf("start task %q: %w", t.id, err)
	}
	back, err := onCores(spec.Cores)
	if err != nil {
		return errdefs.InvalidArgumentf("start task %q: %w", t.id, err)
	}
	defer back()
	pid, err := syscall.ForkExec(spec.Path, spec.Args, attr)
	if err != nil && attr.Sys.UseCgroupFD && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENOEXEC) {
		// The cgroup is a help, not a condition.
		_ = os.Remove(t.cgroup)
		t.cgroup, attr.Sys.UseCgroupFD = "", false
		pid, err = syscall.ForkExec(spec.Path, spec.Args, attr)
	}
	if err != nil {
		t.pidfd = -1
		return forkError(t.id, spec, err)
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
	return errdefs.InvalidArgumentf("start task %q: run %s in %s: %w; check that both exist, that the program is executable and made for this machine, and that the task's user may use them", id, spec.Path, spec.Dir, err)
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
	for _, dir := range spec.CgroupDirs {
		err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(p), 0)
		if err != nil && !errors.Is(err, unix.ESRCH) { // it may have ended already
			return errdefs.InvalidArgumentf("put the task into the cgroup %s: %w; it must exist and be writable to the agent", dir, err)
		}
	}
	return nil
}
