// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// hasStopped reports whether all threads of a process have stopped.
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
