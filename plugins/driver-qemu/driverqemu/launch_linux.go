// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverqemu

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// hiddenArgument is the first argument by which this binary becomes an emulator.
const hiddenArgument = "__drover-qemu"

// launchMain becomes the emulator of a launch if the process's arguments say so; it
// returns if they do not, or if that fails.
func launchMain() error {
	if len(os.Args) != 3 || os.Args[1] != hiddenArgument {
		return nil
	}
	var l launch
	err := json.Unmarshal([]byte(os.Args[2]), &l)
	if err == nil {
		err = l.become()
	}
	return fmt.Errorf("start the virtual machine: %w", err)
}

// become makes this process the emulator. It does what needs the agent's rights
// first, then opens the files as the task's user, who must be allowed to.
func (l *launch) become() error {
	runtime.LockOSThread()
	if l.NetworkNS != "" {
		ns, err := os.Open(l.NetworkNS)
		if err == nil {
			// A thread's own; the one that execs decides for the process.
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		if err != nil {
			return fmt.Errorf("enter the group's network %s: %w", l.NetworkNS, err)
		}
	}
	sockets, err := l.sockets()
	if err != nil {
		return err
	}
	if u := l.User; u != nil {
		groups := make([]int, len(u.Groups))
		for i, g := range u.Groups {
			groups[i] = int(g)
		}
		// In this order: who is no longer root cannot change groups.
		err := errors.Join(syscall.Setgroups(groups), syscall.Setresgid(int(u.GID), int(u.GID), int(u.GID)))
		if err == nil {
			err = syscall.Setresuid(int(u.UID), int(u.UID), int(u.UID))
		}
		if err != nil {
			return fmt.Errorf("become user %d: %w", u.UID, err)
		}
	}
	files, args, err := l.fill()
	if err != nil {
		return err
	}
	for _, f := range files.files {
		if err := inherit(int(f.Fd())); err != nil {
			return err
		}
	}
	argv := append(append([]string{l.Emulator}, sockets...), args...)
	err = syscall.Exec(l.Emulator, argv, os.Environ())
	return fmt.Errorf("run %s: %w", l.Emulator, err)
}

// sockets makes the machine's sockets and returns the options that hand them over.
func (l *launch) sockets() ([]string, error) {
	fd, err := listen(l.RunDir, monitorSocket)
	if err != nil {
		return nil, fmt.Errorf("make the monitor's socket: %w", err)
	}
	out := []string{"-chardev", "socket,id=monitor,server=on,wait=off,fd=" + strconv.Itoa(fd), "-mon", "chardev=monitor,mode=control"}
	if !l.GuestAgent {
		return out, nil
	}
	if fd, err = listen(l.TaskDir, guestAgentSocket); err != nil {
		return nil, fmt.Errorf("make the guest agent's socket: %w", err)
	}
	return append(out, "-chardev", "socket,id=guest-agent,server=on,wait=off,fd="+strconv.Itoa(fd)), nil
}

// inherit keeps a descriptor over exec, and has it block as QEMU expects.
func inherit(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
	if err == nil {
		err = unix.SetNonblock(fd, false)
	}
	if err != nil {
		return fmt.Errorf("hand over descriptor %d: %w", fd, err)
	}
	return nil
}

// listen makes a socket that is inherited. The name is taken beneath the open
// directory: a path to it may be longer than a socket address, or changed meanwhile.
func listen(dir, name string) (int, error) {
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", dir, err)
	}
	defer unix.Close(at)
	if err := unix.Unlinkat(at, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return -1, fmt.Errorf("remove the old %s: %w", name, err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1, err
	}
	old := unix.Umask(0o177)
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: beneath(at, name)})
	unix.Umask(old)
	if err == nil {
		err = unix.Listen(fd, 8)
	}
	if err != nil {
		return -1, fmt.Errorf("listen on %s in %s: %w", name, dir, err)
	}
	return fd, nil
}

// beneath is a name for a file in an open directory.
func beneath(dir int, name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", dir, name) }
