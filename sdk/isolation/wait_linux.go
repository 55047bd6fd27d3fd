// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Kill kills the task with all processes of its pid namespace or, if it runs in the
// machine's pid namespace, its main process.
func (s Started) Kill() {
	fd := s.InitFD
	if fd < 0 {
		fd = s.PIDFD
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // an error means that it has ended
}

// Wait waits until the task's main process has ended, kills the processes that are left in
// its pid namespace, and closes the descriptors. Only the process that has started the task
// can do this, and once.
func (s Started) Wait() (*os.ProcessState, error) {
	defer closeFD(s.PIDFD)
	defer closeFD(s.InitFD)
	state, err := wait(s.PID)
	if s.Init != 0 {
		s.Kill()
		if _, ended := wait(s.Init); err == nil {
			err = ended
		}
	}
	return state, err
}

func wait(pid int) (*os.ProcessState, error) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return nil, fmt.Errorf("find process %d: %w", pid, err)
	}
	state, err := p.Wait()
	if err != nil {
		return nil, fmt.Errorf("wait for process %d: %w", pid, err)
	}
	return state, nil
}
