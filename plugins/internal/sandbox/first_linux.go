// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// firstProcess is process 1 of a task's pid namespace that becomes the task: it
// has mounted /proc, as only a member of the namespace can, and waits until the
// rest of the root directory is made.
type firstProcess struct {
	s              *Started
	report         int // what it reports
	gate           int // a byte here lets it go on
	launch, loader int // the files of both programs
}

// The descriptors of the first program beside its report.
const (
	gateFD   = reportFD + 1
	launchFD = reportFD + 2
	nullFD   = reportFD + 3
)

// startFirst starts process 1. Whatever comes of it, s says what is to be ended.
func startFirst(root string, cgroup int, task Process, s *Started) (*firstProcess, error) {
	f := &firstProcess{s: s, report: -1, gate: -1, launch: -1, loader: -1}
	if err := f.start(root, cgroup, task); err != nil {
		f.close()
		return nil, fmt.Errorf("start process 1 of the task: %w", err)
	}
	return f, nil
}

func (f *firstProcess) start(root string, cgroup int, task Process) error {
	var p program
	proc, mark := p.string("proc"), p.bytes([]byte{0})
	p.add("hide", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
	p.add("mount /proc", unix.SYS_MOUNT, proc, p.string(filepath.Join(root, "proc")), proc, procFlags, 0)
	p.add("keep the gate from the task", unix.SYS_FCNTL, gateFD, unix.F_SETFD, unix.FD_CLOEXEC)
	p.add("keep the program from the task", unix.SYS_FCNTL, launchFD, unix.F_SETFD, unix.FD_CLOEXEC)
	p.add("keep the null device from the task", unix.SYS_FCNTL, nullFD, unix.F_SETFD, unix.FD_CLOEXEC)
	p.add("report", unix.SYS_WRITE, reportFD, mark, 1)
	// The program's memory cannot be written, so the byte goes to nobody.
	p.add("wait for the root directory", unix.SYS_SPLICE, gateFD, 0, nullFD, 0, 1, 0)
	p.add("go on", unix.SYS_EXECVEAT, launchFD, p.string(""), p.strings(task.Args[:1]), p.strings(nil), unix.AT_EMPTY_PATH)
	var err error
	if f.loader, err = p.file("drover-first"); err != nil {
		return err
	}
	if f.launch, err = memoryFile("drover-launch"); err != nil {
		return err
	}
	null, err := unix.Open(os.DevNull, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	defer closeFD(null)
	var gate [2]int
	if err := unix.Pipe2(gate[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer closeFD(gate[0])
	f.gate = gate[1]
	files := append(append([]int{}, task.Files[:]...), gate[0], f.launch, null)
	f.s.PID, f.s.PIDFD, f.report, err = p.fork(f.loader, task.Args[:1], cgroup, files, &syscall.SysProcAttr{Setsid: true, Setctty: task.Terminal})
	return err
}

// become lets the process become the task.
func (f *firstProcess) become(cfg *Config, command string, task Process) error {
	prog, err := launcher(cfg, command, true, task)
	if err != nil {
		return err
	}
	if err := prog.write(f.launch); err != nil {
		return err
	}
	if _, err := unix.Write(f.gate, []byte{0}); err != nil {
		return fmt.Errorf("let process 1 of the task go on: %w", err)
	}
	err = prog.await(f.report, stepTimeout)
	var failed *StepError
	if errors.As(err, &failed) {
		return explain(failed, cfg, command, task)
	}
	return err
}

func (f *firstProcess) close() {
	for _, fd := range []int{f.report, f.gate, f.launch, f.loader} {
		closeFD(fd)
	}
}
