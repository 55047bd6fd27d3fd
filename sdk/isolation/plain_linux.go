// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Plain is a process that is not isolated: it runs in the machine's namespaces with
// the capabilities of its user.
type Plain struct {
	Path, Dir string
	User      *User // nil means the caller's user
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
	if errors.As(err, &failed) && failed.What == stepExec {
		err = Refused(c.Path, p.Args, p.Env, failed.Err)
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

// groups stores a user's groups in the form that setgroups expects.
func (p *program) groups(u *User) uintptr {
	if len(u.Groups) == 0 {
		return 0
	}
	return p.halfWords(u.Groups...)
}
