// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// slots is the number of tests with agents that run at once on a machine. It exceeds the
// number of processors because the tests mostly wait: with two slots, two processors were
// idle for more than half of the time. The packages of black-box tests run as processes
// side by side, so the slots are locks of files.
const slots = 4

// TakeSlot makes a test parallel and waits until it may start agents. The slot is
// given back when the test ends, or when its process does.
func TakeSlot(t *testing.T) {
	t.Helper()
	t.Parallel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		for i := range slots {
			if f := lockSlot(t, i); f != nil {
				t.Cleanup(func() { f.Close() })
				return
			}
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the test ended before it could start an agent")
		}
	}
}

// lockSlot returns the locked file of a slot, or nil if another test has it.
func lockSlot(t *testing.T, i int) *os.File {
	t.Helper()
	name := filepath.Join(os.TempDir(), fmt.Sprintf("drover-e2e-slot-%d-%d", os.Getuid(), i))
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			t.Fatal(err)
		}
		return nil
	}
	return f
}
