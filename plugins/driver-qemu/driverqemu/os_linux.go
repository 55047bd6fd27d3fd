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

// unavailable says why the driver does not run on this system; empty on Linux.
const unavailable = ""

// connect connects to a socket in a directory, even if its path is too long for a
// socket address. It does not follow a link in place of the socket.
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
		return nil, fmt.Errorf("%s in %s is not a socket", name, dir)
	}
	return net.DialTimeout("unix", beneath(at, name), max(limit, time.Millisecond))
}

// hand gives an open file to QEMU, under a name by which the next command refers to it.
func (m *monitor) hand(file *os.File, name string) error {
	conn, ok := m.conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("the machine's monitor is not a unix socket: %T", m.conn)
	}
	body, err := request("getfd", map[string]any{"fdname": name})
	if err != nil {
		return err
	}
	if _, _, err := conn.WriteMsgUnix(body, unix.UnixRights(int(file.Fd())), nil); err != nil {
		return fmt.Errorf("getfd: %w", err)
	}
	return m.answer("getfd", nil)
}

// ioctl that returns KVM's API version. It does not create a VM: creating one can
// hang if KVM exists but does not work.
const (
	kvmGetAPIVersion = 0xae00
	kvmAPIVersion    = 12
)

// kvmProblem says why KVM cannot be used. It returns "" if no problem was found.
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
