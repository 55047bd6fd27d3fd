// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package process acts on other processes for tests, and returns when the kernel has
// done what was asked. Only tests import it.
package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stopLimit ends a wait for a process that is never scheduled.
const stopLimit = time.Minute

// Stop stops a process (SIGSTOP) and returns when all its threads have stopped. The
// signal alone does not suffice: until the thread that takes it is scheduled, the
// others go on, and answer requests.
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
