// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// firstProcess is process 1 of a task's pid namespace if that process becomes the
// task (Config.First). It mounts /proc, which only a member of the namespace can do,
// and waits until the rest of the root directory is built.
type firstProcess struct {
	s              *Started
	report         int // descriptor to which it reports before it runs the second program
	gate           *gate
	program        program // the first program
	launch, loader int     // memory files of the two programs
}

// The descriptors of the first program, besides the descriptors of its report and its gate.
const (
	launchFD = fileFD + 1
	nullFD   = fileFD + 2
)

// startFirst starts process 1. Even on error, s names the process to kill.
func startFirst(root string, cgroup int, task Process, g *gate, s *Started) (*firstProcess, error) {
	f := &firstProcess{s: s, gate: g, report: -1, launch: -1, loader: -1}
	if err := f.start(root, cgroup, task); err != nil {
		f.close()
		return nil, fmt.Errorf("start process 1 of the task: %w", err)
	}
	return f, nil
}

func (f *firstProcess) start(root string, cgroup int, task Process) error {
	p := &f.program
	proc, mark := p.string("proc"), p.bytes([]byte{0})
	p.add("hide", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
	p.add("mount /proc", unix.SYS_MOUNT, proc, p.string(filepath.Join(root, "proc")), proc, procFlags, 0)
	p.add("keep the program from the task", unix.SYS_FCNTL, launchFD, unix.F_SETFD, unix.FD_CLOEXEC)
	p.add("keep the null device from the task", unix.SYS_FCNTL, nullFD, unix.F_SETFD, unix.FD_CLOEXEC)
	p.add("report", unix.SYS_WRITE, reportFD, mark, 1)
	// The program's memory is read-only, so the byte is spliced to a descriptor that
	// nobody reads.
	p.append(modeSome, "wait for the root directory", unix.SYS_SPLICE, []uintptr{gateFD, 0, nullFD, 0, 1, 0})
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
	files := append(append([]int{}, task.Files[:]...), f.gate.wait, f.gate.file, f.launch, null)
	f.s.PID, f.s.PIDFD, f.report, err = p.fork(f.loader, task.Args[:1], cgroup, files, &syscall.SysProcAttr{Setsid: true, Setctty: task.Terminal})
	f.gate.forked()
	return err
}

// become makes the process become the task.
func (f *firstProcess) become(cfg *Config, command string, task Process) error {
	prog, err := launcher(cfg, command, true, task)
	if err != nil {
		return err
	}
	if err := prog.write(f.launch); err != nil {
		return err
	}
	if err := f.gate.push(); err != nil {
		return fmt.Errorf("resume process 1 of the task: %w", err)
	}
	err = f.gate.open(prog, *f.s)
	if errors.Is(err, ErrVanished) {
		err = cmp.Or(f.program.await(f.report, 0), err) // it may have failed before the second program
	}
	return explain(err, cfg, command, task)
}

func (f *firstProcess) close() {
	for _, fd := range []int{f.report, f.launch, f.loader} {
		closeFD(fd)
	}
}
