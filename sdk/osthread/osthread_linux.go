// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package osthread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Do calls f on a thread that ends with it, and returns its error. So f need not undo what it
// changes of its thread, and no other goroutine ever runs with that. It is never the first thread
// of the process: that one cannot end, would keep a namespace or cgroup as long as the process
// runs, and is the one to which /proc/self refers.
func Do(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and not unlocked, which ends the thread with this goroutine
		if unix.Gettid() == unix.Getpid() {
			done <- Do(f) // on another thread, since this goroutine occupies the first
			runtime.UnlockOSThread()
			return
		}
		done <- f()
	}()
	return <-done
}
