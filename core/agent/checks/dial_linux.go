// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package checks

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/errdefs"
)

// dial connects to an address from within a network namespace. A socket stays in the
// namespace in which it was made: only that one system call is made inside, on a thread of
// its own, and nothing waits there.
func dial(ctx context.Context, netns, network, address string) (net.Conn, error) {
	if netns == "" {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil { // a name, to which a redirect led: the namespace's resolver is not the agent's
		return nil, errdefs.InvalidArgumentf("%q is not an address in the alloc's network", address)
	}
	fd, err := socketIn(netns, to.Addr().Unmap())
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "check")
	defer f.Close()
	if err := connect(ctx, f, to); err != nil {
		return nil, fmt.Errorf("dial tcp %s: %w", address, err)
	}
	return net.FileConn(f)
}

// socketIn makes a TCP socket in a namespace.
func socketIn(netns string, a netip.Addr) (int, error) {
	if strings.HasPrefix(netns, "/proc/self/") || strings.HasPrefix(netns, "/proc/thread-self/") {
		return -1, errdefs.InvalidArgumentf("%q is no namespace of an alloc", netns)
	}
	ns, err := os.Open(netns)
	if err != nil {
		return -1, fmt.Errorf("the alloc's network is gone: %w", err)
	}
	defer ns.Close()
	family := unix.AF_INET
	if a.Is6() {
		family = unix.AF_INET6
	}
	type made struct {
		fd  int
		err error
	}
	out := make(chan made, 1)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			runtime.UnlockOSThread()
			out <- made{-1, fmt.Errorf("open the agent's network namespace: %w", err)}
			return
		}
		defer home.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			runtime.UnlockOSThread()
			out <- made{-1, fmt.Errorf("enter the alloc's network: %w", err)}
			return
		}
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			err = os.NewSyscallError("socket", err)
		}
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		} // else the thread ends with this goroutine, and nothing else runs in that namespace
		out <- made{fd, err}
	}()
	m := <-out
	return m.fd, m.err
}

// connect connects a socket that does not block.
func connect(ctx context.Context, f *os.File, to netip.AddrPort) error {
	var sa unix.Sockaddr
	if a := to.Addr().Unmap(); a.Is4() {
		sa = &unix.SockaddrInet4{Port: int(to.Port()), Addr: a.As4()}
	} else {
		sa = &unix.SockaddrInet6{Port: int(to.Port()), Addr: a.As16()}
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := f.SetDeadline(deadline); err != nil {
			return fmt.Errorf("set the deadline: %w", err)
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	begun, result := false, error(nil)
	err = raw.Write(func(fd uintptr) bool {
		if !begun {
			begun = true
			result = unix.Connect(int(fd), sa)
			return result != unix.EINPROGRESS
		}
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil {
			result = err
		} else if code != 0 {
			result = syscall.Errno(code)
		} else if _, err := unix.Getpeername(int(fd)); err == unix.ENOTCONN {
			return false // woken too early
		} else {
			result = err
		}
		return true
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case result != nil:
		return os.NewSyscallError("connect", result)
	}
	return nil
}
