// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package taskapi

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/core/agent/allocdir"
)

// Listener accepts connections on the sockets of tasks.
type Listener struct {
	poll  *os.File // an epoll instance; the Go runtime polls it as it polls any other file
	conns chan net.Conn
	over  chan struct{} // closed by Close
	done  chan struct{} // closed when nothing is accepted any more

	mu     sync.Mutex
	closed bool
	byKey  map[string]*socket
	byFD   map[int32]*socket
}

type socket struct {
	file *os.File
	fd   int
	task address
}

// New returns a Listener without sockets.
func New() (*Listener, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch the sockets of tasks: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd) // not passed to anybody yet
		return nil, fmt.Errorf("watch the sockets of tasks: %w", err)
	}
	l := &Listener{
		poll: os.NewFile(uintptr(fd), "sockets of tasks"), conns: make(chan net.Conn), over: make(chan struct{}), done: make(chan struct{}),
		byKey: map[string]*socket{}, byFD: map[int32]*socket{},
	}
	go l.run()
	return l, nil
}

// Open makes the socket of a task and listens on it. A socket that is open already stays.
func (l *Listener) Open(dir allocdir.Dir, task string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := keyOf(dir, task)
	if l.closed || l.byKey[key] != nil {
		return nil
	}
	file, err := dir.ListenSecrets(task, SocketName)
	if err != nil {
		return err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	s := &socket{file: file, task: address(filepath.Base(dir.Path) + "/" + task)}
	var watched error
	err = raw.Control(func(fd uintptr) {
		s.fd = int(fd)
		watched = l.control(unix.EPOLL_CTL_ADD, s.fd)
	})
	if err := errors.Join(err, watched); err != nil {
		return errors.Join(fmt.Errorf("watch the socket of task %q: %w", task, err), file.Close())
	}
	l.byKey[key], l.byFD[int32(s.fd)] = s, s
	return nil
}

// control changes what the epoll instance watches.
func (l *Listener) control(op, fd int) (err error) {
	raw, err := l.poll.SyscallConn()
	if err != nil {
		return err
	}
	var changed error
	err = raw.Control(func(epoll uintptr) {
		changed = unix.EpollCtl(int(epoll), op, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	})
	return errors.Join(err, changed)
}

// Shut ends the socket of a task. Connections stay.
func (l *Listener) Shut(dir allocdir.Dir, task string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.byKey[keyOf(dir, task)]; s != nil {
		delete(l.byKey, keyOf(dir, task))
		delete(l.byFD, int32(s.fd))
		_ = s.file.Close() // closing also ends the watch
	}
}

// run accepts connections until Close.
func (l *Listener) run() {
	defer close(l.done)
	raw, err := l.poll.SyscallConn()
	if err != nil {
		return
	}
	events := make([]unix.EpollEvent, 64)
	for {
		n := 0
		err := raw.Read(func(epoll uintptr) bool {
			n, _ = unix.EpollWait(int(epoll), events, 0) // interrupted: asked again
			return n > 0
		})
		if err != nil {
			return // closed
		}
		for _, e := range events[:n] {
			if !l.accept(e.Fd) {
				return
			}
		}
	}
}

// full is how long to wait when no connection can be accepted, as without free descriptors.
const full = 100 * time.Millisecond

// accept passes on one connection of a socket; false after Close.
func (l *Listener) accept(fd int32) bool {
	c, err := l.next(fd)
	if err != nil {
		select {
		case <-time.After(full):
			return true
		case <-l.over:
			return false
		}
	}
	if c == nil {
		return true
	}
	select {
	case l.conns <- c:
		return true
	case <-l.over:
		_ = c.Close() // nobody takes it any more
		return false
	}
}

// next accepts a connection; nil if there is none. The lock keeps the descriptor from being
// closed and reused meanwhile.
func (l *Listener) next(fd int32) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.byFD[fd]
	if s == nil {
		return nil, nil
	}
	n, _, err := unix.Accept4(s.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	switch err {
	case nil:
	case unix.EAGAIN, unix.EINTR, unix.ECONNABORTED: // it has gone, or is tried again
		return nil, nil
	default:
		return nil, err
	}
	file := os.NewFile(uintptr(n), SocketName)
	defer file.Close() // FileConn has a copy
	c, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, task: s.task}, nil
}

// Accept returns the next connection of a task.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

// Close ends all sockets.
func (l *Listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	var errs []error
	for _, s := range l.byKey {
		errs = append(errs, s.file.Close())
	}
	l.byKey, l.byFD = nil, nil
	l.mu.Unlock()
	close(l.over)
	errs = append(errs, l.poll.Close())
	<-l.done
	return errors.Join(errs...)
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return address("sockets of tasks") }
