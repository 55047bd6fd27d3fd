// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

// Package process controls other processes for tests. Its functions return only when
// the kernel has carried out the request. Only tests import it.
package process

import (
	"fmt"
	"syscall"
	"time"
)

// stopLimit is the time limit for a process to stop.
const stopLimit = time.Minute

// Stop stops a process (SIGSTOP) and waits until all its threads have stopped.
// Sending the signal is not enough: until the thread that receives it is scheduled,
// the others keep running and may answer requests.
func Stop(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop process %d: %w", pid, err)
	}
	for begin := time.Now(); ; {
		stopped, err := hasStopped(pid)
		if err != nil || stopped {
			return err
		}
		if time.Since(begin) > stopLimit {
			return fmt.Errorf("process %d has not stopped for %s", pid, stopLimit)
		}
		time.Sleep(time.Millisecond)
	}
}
