// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Direct returns a connection over a Unix or TCP socket whose reads and writes do not announce
// themselves to Go's scheduler. An announced system call wakes the runtime's monitor thread,
// which then looks every 20 us whether the call has ended: for a small message that costs more
// than the message, in both processes. The calls need no monitor, because the socket never
// blocks. Other connections are returned as they are. The two ends need not agree.
func Direct(conn net.Conn) net.Conn {
	var socket syscall.Conn
	switch c := conn.(type) {
	case *net.UnixConn:
		socket = c
	case *net.TCPConn:
		socket = c
	default:
		return conn
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return conn
	}
	return &direct{Conn: conn, raw: raw}
}

type direct struct {
	net.Conn
	raw syscall.RawConn
}

func (c *direct) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, errno := 0, unix.Errno(0)
	err := c.raw.Read(func(fd uintptr) bool {
		n, errno = call(unix.SYS_READ, fd, p)
		return errno != unix.EAGAIN
	})
	switch {
	case err != nil:
		return 0, err
	case errno != 0:
		return 0, c.failed("read", errno)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (c *direct) Write(p []byte) (int, error) {
	done, errno := 0, unix.Errno(0)
	err := c.raw.Write(func(fd uintptr) bool {
		for done < len(p) {
			var n int
			if n, errno = call(unix.SYS_WRITE, fd, p[done:]); errno != 0 {
				return errno != unix.EAGAIN
			}
			done += n
		}
		return true
	})
	if err == nil && errno != 0 {
		err = c.failed("write", errno)
	}
	return done, err
}

func (c *direct) failed(op string, errno unix.Errno) error {
	return &net.OpError{Op: op, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, errno)}
}

// call reads or writes.
func call(number, fd uintptr, p []byte) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}
