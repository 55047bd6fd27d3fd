// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Plain is a process that is not isolated: it runs in the machine's namespaces with
// the capabilities of its user.
type Plain struct {
	Path, Dir string
	User      *User // nil means the caller's user
	// Mounts are made at existing paths, in a mount namespace of the process's own, so that
	// nobody else sees them. A process with mounts runs with no_new_privs: otherwise a mount
	// could replace a file that a setuid program trusts. Propagation must not be
	// bidirectional.
	Mounts []Bind
}

// Fork starts a process that is not isolated. It starts in the v2 cgroup that is
// open as cgroup (-1 means the caller's), and in the v1 cgroups and network
// namespace of the calling thread, see Within. The process is held until hold.Write
// has returned. A failed start leaves no process behind. Fork returns ErrNoPrograms
// if this machine cannot hold a process.
func Fork(c Plain, cgroup int, p Process, hold Hold) (Started, error) {
	s := Started{PIDFD: -1, InitFD: -1}
	g, err := makeGate(hold.Report, hold.record)
	if err == nil {
		err = c.start(cgroup, p, g, &s)
		g.close()
	}
	if errors.Is(err, ErrNoPrograms) && hold.Report != "" {
		err = errors.Join(err, os.Remove(hold.Report)) // it would report that the task has not run
	}
	var failed *StepError
	switch {
	case errors.As(err, &failed) && failed.What == stepExec:
		err = Refused(c.Path, p.Args, p.Env, failed.Err)
	case failed != nil && strings.HasPrefix(failed.What, stepMount):
		err = &CommandError{fmt.Errorf("%w; what is mounted and where it is mounted must exist, and the agent must be allowed to mount", err)}
	}
	return s.unless(err)
}

func (c *Plain) start(cgroup int, p Process, g *gate, s *Started) error {
	if err := noZeros([]string{c.Path, c.Dir}, p.Args, p.Env); err != nil {
		return fmt.Errorf("start a process: %w", err)
	}
	return c.program(p).start(cgroup, p, g, s)
}

// program returns the program that becomes the process.
func (c *Plain) program(p Process) *program {
	var prog program
	prog.addReport()
	prog.addMounts(c.Mounts)
	if u := c.User; u != nil {
		if os.Geteuid() == 0 {
			prog.add("set the user's groups", unix.SYS_SETGROUPS, uintptr(len(u.Groups)), prog.groups(u))
		}
		prog.add("become the user's group", unix.SYS_SETRESGID, uintptr(u.GID), uintptr(u.GID), uintptr(u.GID))
		prog.add("become the user", unix.SYS_SETRESUID, uintptr(u.UID), uintptr(u.UID), uintptr(u.UID))
	}
	if c.Dir != "" {
		prog.add(stepChdir, unix.SYS_CHDIR, prog.string(c.Dir))
	}
	prog.addGate()
	prog.add(stepExec, unix.SYS_EXECVE, prog.string(c.Path), prog.strings(p.Args), prog.strings(p.Env))
	return &prog
}

const stepMount = "mount "

// addMounts makes the mounts in a mount namespace of the process's own. What the machine
// mounts and unmounts later is mounted and unmounted there, too.
func (p *program) addMounts(mounts []Bind) {
	if len(mounts) == 0 {
		return
	}
	p.add("set no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	p.add(stepMount+"in a namespace of its own", unix.SYS_UNSHARE, unix.CLONE_NEWNS)
	p.add(stepMount+"for itself only", unix.SYS_MOUNT, 0, p.string("/"), 0, unix.MS_REC|unix.MS_SLAVE, 0)
	for _, m := range mounts {
		what, target := stepMount+m.Source+" on "+m.Target, p.string(m.Target)
		p.add(what, unix.SYS_MOUNT, p.string(m.Source), target, 0, unix.MS_BIND|unix.MS_REC, 0)
		var set, propagation uint64 = 0, unix.MS_PRIVATE
		if m.ReadOnly {
			set = readOnly
		}
		if m.Propagation == "host-to-task" {
			propagation = unix.MS_SLAVE
		}
		attr := p.words(set, 0, propagation, 0)
		cwd := unix.AT_FDCWD
		p.add(what, unix.SYS_MOUNT_SETATTR, uintptr(cwd), target, unix.AT_RECURSIVE, attr, unix.MOUNT_ATTR_SIZE_VER0)
	}
}

// groups stores a user's groups in the form that setgroups expects.
func (p *program) groups(u *User) uintptr {
	if len(u.Groups) == 0 {
		return 0
	}
	return p.halfWords(u.Groups...)
}
