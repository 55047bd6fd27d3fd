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

// hiddenArgument is the first argument with which this binary becomes an emulator.
const hiddenArgument = "__drover-qemu"

// launchMain replaces the process with the emulator of a launch if the arguments
// request it. It returns if they do not, or on error.
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

// become replaces this process with the emulator. It first does what needs the
// agent's privileges, and then opens the files as the task's user, who must have
// access to them.
func (l *launch) become() error {
	runtime.LockOSThread()
	if l.NetworkNS != "" {
		ns, err := os.Open(l.NetworkNS)
		if err == nil {
			// The namespace applies to this thread only, but exec replaces the process with the
			// calling thread.
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
	incoming, err := l.incoming()
	if err != nil {
		return err
	}
	if u := l.User; u != nil {
		groups := make([]int, len(u.Groups))
		for i, g := range u.Groups {
			groups[i] = int(g)
		}
		// The order matters: a process that is no longer root cannot change groups.
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
	argv := append(append(append([]string{l.Emulator}, sockets...), incoming...), args...)
	err = syscall.Exec(l.Emulator, argv, os.Environ())
	return fmt.Errorf("run %s: %w", l.Emulator, err)
}

// sockets creates the VM's sockets and returns the options that pass them to QEMU.
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

// incoming opens the state from which the VM continues, which its user may not be allowed
// to read, and returns the options that pass it to QEMU.
func (l *launch) incoming() ([]string, error) {
	if l.Incoming == "" {
		return nil, nil
	}
	fd, err := unix.Open(l.Incoming, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the checkpoint %s: %w", l.Incoming, err)
	}
	return []string{"-incoming", "fd:" + strconv.Itoa(fd)}, inherit(fd)
}

// inherit keeps a descriptor open over exec and makes it blocking, as QEMU expects.
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

// listen creates a socket that the emulator inherits. The address goes through the
// open directory, because the directory's path may be longer than a socket address
// or may be replaced meanwhile.
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

// beneath returns a path for a file in an open directory.
func beneath(dir int, name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", dir, name) }
