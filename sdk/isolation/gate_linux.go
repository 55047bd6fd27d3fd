// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Hold delays a start until it is recorded, so that no task runs without a record. The
// new process waits at its gate, a pipe whose other end the starter holds. If the
// starter ends before it opens the gate, the pipe ends, and the process exits without
// having run any instruction of its task.
type Hold struct {
	// Report is the path of a file that is created. It outlives the starter and tells the
	// next one whether the task has run, see Began. If it is empty, there is no report, and
	// Began cannot be called.
	Report string
	// Write records the process, which exists and waits. The gate is opened if Write
	// returns nil. A nil Write records nothing.
	Write func(Started) error
}

func (h *Hold) record(s Started) error {
	if h.Write == nil {
		return nil
	}
	return h.Write(s)
}

// The descriptors of a held program, besides the descriptor of its report.
const (
	gateFD = reportFD + 1
	fileFD = reportFD + 2
)

// A report is empty while the process is held and has one byte once the process has
// passed the gate. If a system call of the program fails, its report (see the assembly)
// is appended. The starter locks the file; the process inherits the lock's descriptor,
// which is closed when it becomes its task or ends. So an unlocked report is final.
const begun = 1

// addReport makes the following steps report to the file.
func (p *program) addReport() {
	p.add("take the report", unix.SYS_DUP3, fileFD, reportFD, unix.O_CLOEXEC)
	p.add("keep the report from the task", unix.SYS_FCNTL, fileFD, unix.F_SETFD, unix.FD_CLOEXEC)
	p.add("keep the gate from the task", unix.SYS_FCNTL, gateFD, unix.F_SETFD, unix.FD_CLOEXEC)
}

// addGate waits for the byte that opens the gate and moves it into the report.
func (p *program) addGate() {
	p.append(modeSome, "wait at the gate", unix.SYS_SPLICE, []uintptr{gateFD, 0, reportFD, 0, 1, 0})
}

// gate is the starter's side.
type gate struct {
	write func(Started) error
	file  int // the report
	wait  int // the process's end of the pipe
	pass  int // our end: writing a byte lets the process continue
}

func makeGate(report string, write func(Started) error) (*gate, error) {
	g := &gate{write: write, file: -1, wait: -1, pass: -1}
	var err error
	if report == "" {
		g.file, err = unix.MemfdCreate("drover-report", unix.MFD_CLOEXEC)
	} else {
		_ = os.Remove(report) // it may exist from an earlier start
		g.file, err = unix.Open(report, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	}
	if err == nil {
		err = unix.Flock(g.file, unix.LOCK_EX|unix.LOCK_NB)
	}
	var pipe [2]int
	if err == nil {
		err = unix.Pipe2(pipe[:], unix.O_CLOEXEC)
	}
	if err != nil {
		g.close()
		return nil, fmt.Errorf("make the gate of a new process: %w", err)
	}
	g.wait, g.pass = pipe[0], pipe[1]
	return g, nil
}

// forked closes our copy of the process's end of the pipe after the fork.
func (g *gate) forked() {
	closeFD(g.wait)
	g.wait = -1
}

func (g *gate) close() {
	for _, fd := range []int{g.file, g.wait, g.pass} {
		closeFD(fd)
	}
}

// push lets the process pass its next wait. It succeeds even if the process has
// ended.
func (g *gate) push() error {
	if _, err := unix.Write(g.pass, []byte{1}); err != nil && err != unix.EPIPE {
		return fmt.Errorf("resume a new process: %w", err)
	}
	return nil
}

// ErrVanished says that a held process ended before it passed its gate.
var ErrVanished = errors.New("the new process ended before it became its task")

// open records the start, opens the gate, and waits until the process has become its
// task.
func (g *gate) open(p *program, s Started) error {
	if err := g.write(s); err != nil {
		return err
	}
	if err := g.push(); err != nil {
		return err
	}
	// The other end is closed once nobody will read from the pipe.
	fds := []unix.PollFd{{Fd: int32(g.pass)}}
	n, err := unix.Poll(fds, stepTimeout)
	for err == unix.EINTR {
		n, err = unix.Poll(fds, stepTimeout)
	}
	if err == nil && n == 0 {
		err = unix.ETIMEDOUT
	}
	if err != nil {
		return fmt.Errorf("wait for the new process: %w", err)
	}
	var raw [begun + 16]byte
	n, err = unix.Pread(g.file, raw[:], 0)
	switch {
	case err != nil:
		return fmt.Errorf("read the report of the new process: %w", err)
	case n >= 16:
		return p.failure([16]byte(raw[n-16 : n]))
	case n != begun:
		return ErrVanished
	}
	return nil
}

// start starts a process that runs a program, and waits until it is recorded and has
// become its task. On error, s names the process to kill.
func (p *program) start(cgroup int, task Process, g *gate, s *Started) error {
	file, err := p.file("drover-launch")
	if err != nil {
		return err
	}
	defer closeFD(file)
	files := append(append([]int{}, task.Files[:]...), g.file, g.wait, g.file)
	s.PID, s.PIDFD, err = spawn(file, task.Args[:1], cgroup, files, &syscall.SysProcAttr{Setsid: true, Setctty: task.Terminal})
	g.forked()
	if err != nil {
		return err
	}
	return g.open(p, *s)
}

// ErrUndecided says that a process whose starter has ended neither continues nor ends.
var ErrUndecided = errors.New("a new process is still at its gate")

// Began reports whether the task of a start whose starter has ended may have run. It
// waits up to patience for a process that is about to become its task or to end.
// Errors: os.ErrNotExist if the start was not held or has completed, ErrUndecided.
func Began(report string, patience time.Duration) (bool, error) {
	fd, err := unix.Open(report, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("open the report of a start: %w", err)
	}
	defer closeFD(fd)
	until := time.Now().Add(patience)
	for err = unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB); err != nil; err = unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) {
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return false, fmt.Errorf("lock the report of a start: %w", err)
		}
		if time.Now().After(until) {
			return false, ErrUndecided
		}
		time.Sleep(time.Millisecond)
	}
	var raw [begun + 1]byte
	n, err := unix.Pread(fd, raw[:], 0)
	if err != nil {
		return false, fmt.Errorf("read the report of a start: %w", err)
	}
	return n == begun, nil
}
