// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"errors"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// StartFiltered starts a command that sets a filter of system calls right before it becomes
// its program. So the filter may refuse what a start needs, such as clone3 into the cgroup of
// cmd.SysProcAttr. The command must have no new privileges, or CAP_SYS_ADMIN, and no
// ExtraFiles. If the program cannot be run, the error is the one of cmd.Start. ErrNoPrograms:
// this machine cannot do it, and nothing was tried.
func StartFiltered(cmd *exec.Cmd, filter []unix.SockFilter) error {
	if len(cmd.ExtraFiles) > 0 {
		return errors.New("a command that is started with a filter can have no extra files")
	}
	var prog program
	prog.add("close the report", unix.SYS_FCNTL, reportFD, unix.F_SETFD, unix.FD_CLOEXEC)
	prog.add("set the filter of system calls", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, prog.addFilter(filter))
	env := cmd.Environ()
	if err := noZeros([]string{cmd.Path}, cmd.Args, env); err != nil {
		return err
	}
	path := cmd.Path
	prog.add(stepExec, unix.SYS_EXECVE, prog.string(path), prog.strings(cmd.Args), prog.strings(env))
	file, err := prog.file("drover-filter")
	if err != nil {
		return err
	}
	defer closeFD(file)
	report, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer report.Close()
	cmd.Path, cmd.ExtraFiles = procFD(file), []*os.File{theirs} // which is reportFD
	err = cmd.Start()
	cmd.Path, cmd.ExtraFiles = path, nil
	_ = theirs.Close()
	if err != nil {
		return err
	}
	if err = prog.await(int(report.Fd()), stepTimeout); err == nil {
		return nil
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it did not become its program
	var failed *StepError
	if errors.As(err, &failed) && failed.What == stepExec {
		return &os.PathError{Op: "fork/exec", Path: path, Err: failed.Err}
	}
	return err
}
