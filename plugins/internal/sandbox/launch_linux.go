// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// launch forks the task's process. It gets its user, filter and directory between
// fork and exec, by its program.
func launch(cfg *Config, command string, newCgroupNS bool, cgroup int, p Process) (pid, pidfd int, err error) {
	prog, err := launcher(cfg, command, newCgroupNS, p)
	if err != nil {
		return 0, -1, err
	}
	file, err := prog.file("drover-launch")
	if err != nil {
		return 0, -1, err
	}
	defer closeFD(file)
	pid, pidfd, err = prog.run(file, []string{p.Args[0]}, cgroup, p.Files, &syscall.SysProcAttr{Setsid: true, Setctty: p.Terminal})
	var failed *StepError
	if errors.As(err, &failed) {
		return 0, -1, explain(failed, cfg, command, p)
	}
	return pid, pidfd, err
}

const (
	stepChdir = "enter the working directory"
	stepExec  = "run the command"
)

// launcher is the program that becomes the task.
func launcher(cfg *Config, command string, newCgroupNS bool, p Process) (*program, error) {
	var prog program
	prog.add("hide", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
	// The supervisor's session keyring is not the task's. A kernel without
	// keyrings has nothing to part from.
	prog.try("part from the session keyring", unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0)
	if newCgroupNS {
		prog.add("make the task's cgroup namespace", unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP)
	}
	if err := prog.addUser(cfg, p.User); err != nil {
		return nil, err
	}
	dir := cfg.WorkDir
	if dir == "" {
		dir = "/"
	}
	prog.add(stepChdir, unix.SYS_CHDIR, prog.string(dir))
	prog.add("close the report", unix.SYS_FCNTL, reportFD, unix.F_SETFD, unix.FD_CLOEXEC)
	const setFilter = 1
	prog.add("set the filter of system calls", unix.SYS_SECCOMP, setFilter, 0, prog.addFilter(filter(cfg.Bounding)))
	prog.add(stepExec, unix.SYS_EXECVE, prog.string(command), prog.strings(p.Args), prog.strings(p.Env))
	return &prog, nil
}

// addUser becomes the user, with the capabilities that it shall have.
func (p *program) addUser(cfg *Config, u User) error {
	own, err := effective()
	if err != nil {
		return err
	}
	for c := range capabilities {
		if !hasCap(cfg.Bounding, c) {
			// Numbers that the kernel does not have are no matter: it has none of
			// ours beyond those it does.
			p.try("drop a capability", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(c))
		}
	}
	p.add("set no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	caps := cfg.Bounding
	if u.UID != 0 {
		caps = cfg.Ambient
		p.add("keep capabilities", unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1)
	}
	var set uint64
	for _, c := range caps {
		set |= 1 << c
	}
	set &= own // what the agent itself lacks it cannot give
	groups := uintptr(0)
	if len(u.Groups) > 0 {
		groups = p.halfWords(u.Groups...)
	}
	p.add("set the user's groups", unix.SYS_SETGROUPS, uintptr(len(u.Groups)), groups)
	p.add("become the user's group", unix.SYS_SETRESGID, uintptr(u.GID), uintptr(u.GID), uintptr(u.GID))
	p.add("become the user", unix.SYS_SETRESUID, uintptr(u.UID), uintptr(u.UID), uintptr(u.UID))
	inheritable := set
	if u.UID == 0 {
		inheritable = 0
	}
	header := p.halfWords(unix.LINUX_CAPABILITY_VERSION_3, 0)
	low := func(n uint64) uint32 { return uint32(n & 0xffffffff) }
	data := p.halfWords(low(set), low(set), low(inheritable), low(set>>32), low(set>>32), low(inheritable>>32))
	p.add("set the capabilities", unix.SYS_CAPSET, header, data)
	for c := 0; c < 64; c++ {
		if inheritable&(1<<c) != 0 {
			p.add("keep a capability", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(c))
		}
	}
	return nil
}

// effective is what the calling thread may give.
func effective() (uint64, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0, fmt.Errorf("read the agent's capabilities: %w", err)
	}
	return uint64(data[0].Permitted) | uint64(data[1].Permitted)<<32, nil
}
