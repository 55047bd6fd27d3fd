// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// launch forks a process that joins a task. Its program sets user, seccomp filter
// and directory between fork and exec.
func launch(cfg *Config, command string, cgroup int, p Process) (pid, pidfd int, err error) {
	prog, err := launcher(cfg, command, false, p)
	if err != nil {
		return 0, -1, err
	}
	file, err := prog.file("drover-launch")
	if err != nil {
		return 0, -1, err
	}
	defer closeFD(file)
	pid, pidfd, err = prog.run(file, p.Args[:1], cgroup, p.Files, &syscall.SysProcAttr{Setsid: true, Setctty: p.Terminal})
	return pid, pidfd, explain(err, cfg, command, p)
}

// launchHeld is launch for the task itself, which is held at a gate.
func launchHeld(cfg *Config, command string, cgroup int, p Process, g *gate, s *Started) error {
	prog, err := launcher(cfg, command, true, p)
	if err != nil {
		return err
	}
	return explain(prog.start(cgroup, p, g, s), cfg, command, p)
}

const (
	stepChdir = "enter the working directory"
	stepExec  = "run the command"
)

// launcher returns the program that becomes the task, which waits at its gate if
// held is true, or a process that joins the task.
func launcher(cfg *Config, command string, held bool, p Process) (*program, error) {
	if err := noZeros(p.Args, p.Env); err != nil {
		return nil, &CommandError{err}
	}
	var prog program
	if held {
		prog.addReport()
	}
	prog.add("hide", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
	// The task must not share the supervisor's session keyring. The call fails on a
	// kernel without keyrings, where there is nothing to share.
	prog.try("leave the session keyring", unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0)
	if held {
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
	if held {
		prog.addGate()
	}
	const setFilter = 1
	prog.add("set the filter of system calls", unix.SYS_SECCOMP, setFilter, 0, prog.addFilter(filter(cfg.Bounding)))
	prog.add(stepExec, unix.SYS_EXECVE, prog.string(command), prog.strings(p.Args), prog.strings(p.Env))
	return &prog, nil
}

// addUser adds the calls that switch to the user and set its capabilities.
func (p *program) addUser(cfg *Config, u User) error {
	own, err := effective()
	if err != nil {
		return err
	}
	for c := range capabilities {
		if !hasCap(cfg.Bounding, c) {
			// The call fails for numbers that the kernel does not know. That is harmless, since
			// no process has such a capability.
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
	set &= own // the agent can grant only capabilities that it has
	p.add("set the user's groups", unix.SYS_SETGROUPS, uintptr(len(u.Groups)), p.groups(&u))
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

// effective returns the effective capabilities of the calling thread.
func effective() (uint64, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0, fmt.Errorf("read the agent's capabilities: %w", err)
	}
	return uint64(data[0].Permitted) | uint64(data[1].Permitted)<<32, nil
}
