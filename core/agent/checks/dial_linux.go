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
// namespace in which it was made, so only that one system call is made inside, on a
// separate thread, and nothing waits there.
func dial(ctx context.Context, netns, network, address string) (net.Conn, error) {
	if netns == "" {
		return (&net.Dialer{KeepAlive: -1}).DialContext(ctx, network, address)
	}
	f, err := open(ctx, netns, address)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileConn(f)
}

// touch connects to an address and closes the connection. It does less than dial, as there
// may be thousands of checks that do nothing else.
func touch(ctx context.Context, netns, address string) error {
	if to, err := netip.ParseAddrPort(address); netns == "" && (err != nil || to.Addr().Zone() != "") {
		conn, err := dial(ctx, netns, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	f, err := open(ctx, netns, address)
	if err != nil {
		return err
	}
	return f.Close()
}

// open makes a connected socket.
func open(ctx context.Context, netns, address string) (*os.File, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil || to.Addr().Zone() != "" { // a name, to which a redirect led: the namespace's resolver is not the agent's
		return nil, errdefs.InvalidArgumentf("%q is not an address in the alloc's network", address)
	}
	family := unix.AF_INET
	if to.Addr().Unmap().Is6() {
		family = unix.AF_INET6
	}
	var fd int
	if netns == "" {
		fd, err = socket(family)
	} else {
		fd, err = socketIn(netns, family)
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "check")
	if err := connect(ctx, f, to); err != nil {
		f.Close()
		return nil, fmt.Errorf("dial tcp %s: %w", address, err)
	}
	return f, nil
}

// socket makes a TCP socket that does not block.
func socket(family int) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	return fd, os.NewSyscallError("socket", err)
}

// socketIn makes a TCP socket in a namespace.
func socketIn(netns string, family int) (int, error) {
	if strings.HasPrefix(netns, "/proc/self/") || strings.HasPrefix(netns, "/proc/thread-self/") {
		return -1, errdefs.InvalidArgumentf("%q is not a namespace of an alloc", netns)
	}
	ns, err := os.Open(netns)
	if err != nil {
		return -1, fmt.Errorf("the alloc's network is gone: %w", err)
	}
	defer ns.Close()
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
		fd, err := socket(family)
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		} // otherwise the thread ends with this goroutine, and nothing else runs in that namespace
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
