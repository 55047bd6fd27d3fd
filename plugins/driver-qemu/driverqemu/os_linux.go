// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverqemu

import (
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// unavailable says why there is no driver here.
const unavailable = ""

// connect connects to a socket in a directory, whatever the length of its path. A
// link in the socket's place is not followed.
func connect(dir, name string, limit time.Duration) (net.Conn, error) {
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, fmt.Errorf("find %s in %s: %w", name, dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, fmt.Errorf("%s in %s is no socket", name, dir)
	}
	return net.DialTimeout("unix", beneath(at, name), max(limit, time.Millisecond))
}

// The one call that asks the kernel what KVM it has. It makes no machine: where KVM
// is there but does not work, making one can hang.
const (
	kvmGetAPIVersion = 0xae00
	kvmAPIVersion    = 12
)

// kvmProblem says why kvm cannot be used; "" if it can, as far as can be told.
func kvmProblem() string {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	version, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), kvmGetAPIVersion, 0)
	if errno != 0 {
		return errno.Error()
	}
	if version != kvmAPIVersion {
		return fmt.Sprintf("/dev/kvm is of version %d, not %d", version, kvmAPIVersion)
	}
	return ""
}
