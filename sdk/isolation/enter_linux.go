// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/osthread"
)

// Joined is a process that Enter has started. It is a child of the caller.
type Joined struct {
	PID int
	// Terminal is the master of its terminal, or nil if it has none.
	Terminal *os.File
}

// Size is the size of a terminal in characters.
type Size struct{ Rows, Columns uint16 }

// namespaces are the namespaces of a sandbox, in the order in which they are joined.
// The mount namespace is last, because the files of the other namespaces are not
// visible inside it.
var namespaces = []struct {
	name string
	kind int
}{
	{"ipc", unix.CLONE_NEWIPC}, {"uts", unix.CLONE_NEWUTS}, {"net", unix.CLONE_NEWNET},
	{"pid", unix.CLONE_NEWPID}, {"cgroup", unix.CLONE_NEWCGROUP}, {"mnt", unix.CLONE_NEWNS},
}

// Target holds the namespaces of a running task open, so that they stay the namespaces of
// the task even if its pid is reused.
type Target struct{ fds []int }

// OpenTarget opens the namespaces of a process. Afterwards the caller must verify
// that the process is still the task's. The caller closes the Target.
func OpenTarget(pid int) (*Target, error) {
	t := &Target{}
	for _, ns := range namespaces {
		fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/ns/"+ns.name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Close()
			return nil, fmt.Errorf("open the %s namespace of process %d: %w", ns.name, pid, err)
		}
		t.fds = append(t.fds, fd)
	}
	return t, nil
}

// Close closes the namespaces.
func (t *Target) Close() {
	for _, fd := range t.fds {
		closeFD(fd)
	}
	t.fds = nil
}

// Enter starts a process in the sandbox of a task: with its namespaces, root,
// cgroups, capabilities and seccomp filter. cfg and cgroups are those with which the
// task was started, except for the command and the directory of the new process. If terminal is not nil, the process
// gets a terminal of that size instead of p.Files.
func Enter(t *Target, cfg *Config, cgroups []string, p Process, terminal *Size) (*Joined, error) {
	j := &Joined{}
	if err := osthread.Do(func() error { return enter(t, cfg, cgroups, p, terminal, j) }); err != nil {
		if j.Terminal != nil {
			err = errors.Join(err, j.Terminal.Close())
		}
		return nil, err
	}
	return j, nil
}

func enter(t *Target, cfg *Config, cgroups []string, p Process, terminal *Size, j *Joined) error {
	groups, err := openGroups(cgroups)
	if err != nil {
		return err
	}
	defer groups.close()
	if err := groups.enter(); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leave the plugin's root directory: %w", err)
	}
	unix.Umask(0o022)
	for i, ns := range namespaces {
		if err := unix.Setns(t.fds[i], ns.kind); err != nil {
			return fmt.Errorf("join the task's %s namespace: %w", ns.name, err)
		}
	}
	if terminal != nil {
		slave, err := openTerminal(j, p.User, *terminal)
		if err != nil {
			return err
		}
		defer closeFD(slave)
		p.Files, p.Terminal = [3]int{slave, slave, slave}, true
	}
	command, err := lookUp(cfg.Command, p.Env)
	if err != nil {
		return err
	}
	pid, pidfd, err := launch(cfg, command, groups.unified, p)
	closeFD(pidfd)
	j.PID = pid
	return err
}

// openTerminal creates a pseudo-terminal in the task's own /dev/pts, so that the
// process finds it by its name.
func openTerminal(j *Joined, owner User, size Size) (slave int, err error) {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("make a terminal in the task: %w", err)
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		closeFD(master)
		return -1, fmt.Errorf("make a terminal in the task: %w", err)
	}
	// The slave is opened through the master, because the task may have replaced the
	// name.
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		closeFD(master)
		return -1, fmt.Errorf("make a terminal in the task: %w", errno)
	}
	err = unix.Fchown(int(fd), int(owner.UID), -1)
	if err == nil {
		err = unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Columns})
	}
	if err == nil {
		err = unix.SetNonblock(master, true)
	}
	if err != nil {
		closeFD(master)
		closeFD(int(fd))
		return -1, fmt.Errorf("make a terminal in the task: %w", err)
	}
	j.Terminal = os.NewFile(uintptr(master), "terminal")
	return int(fd), nil
}
