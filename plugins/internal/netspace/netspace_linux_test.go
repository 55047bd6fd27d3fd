// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package netspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plugins/internal/netspace"
	"github.com/drover-project/drover/sdk/osthread"
)

func TestInANamespaceEveryUserMayListenOnLowPortsAndPing(t *testing.T) {
	if err := netspace.Probe(); err != nil {
		t.Skip(err)
	}
	path := filepath.Join(t.TempDir(), "ns")
	if err := netspace.Make(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netspace.Remove(path); err != nil {
			t.Error(err)
		}
	})
	err := osthread.Do(func() error {
		ns, err := os.Open(path)
		if err != nil {
			return err
		}
		defer ns.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return asNobody(func() error {
			return errors.Join(
				withSocket(unix.SOCK_STREAM, 0, func(fd int) error { return unix.Bind(fd, &unix.SockaddrInet4{Port: 80}) }),
				withSocket(unix.SOCK_DGRAM, unix.IPPROTO_ICMP, func(int) error { return nil }))
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// asNobody calls f on this thread without the rights of root. The functions of package
// unix would change all threads.
func asNobody(f func() error) error {
	const nobody = 65534
	for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
		if _, _, errno := unix.RawSyscall(call, nobody, nobody, nobody); errno != 0 {
			return errno
		}
	}
	return f()
}

func withSocket(kind, protocol int, f func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	return os.NewSyscallError("bind", f(fd))
}
