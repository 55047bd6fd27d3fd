// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package process controls other processes for tests. Its functions return only when
// the kernel has carried out the request. Only tests import it.
package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

func hasStopped(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false, fmt.Errorf("list the threads of process %d: there are %d (%w)", pid, len(threads), err)
	}
	for _, name := range threads {
		body, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // the thread has ended
		}
		if err != nil {
			return false, fmt.Errorf("read the state of a thread: %w", err)
		}
		if !strings.Contains(string(body), ") T ") {
			return false, nil
		}
	}
	return true, nil
}
