// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// Start starts a command whose process is in the cgroup from its first instruction on. A
// nil cgroup means none: the command is just started.
func (c *Cgroup) Start(cmd *exec.Cmd) error {
	switch {
	case c == nil:
		return cmd.Start()
	case c.Version == 2:
		return c.startV2(cmd)
	}
	var err error
	onThread(func() { err = c.startV1(cmd) })
	return err
}

func (c *Cgroup) startV2(cmd *exec.Cmd) error {
	dir, err := os.Open(c.Dirs["memory"])
	if err != nil {
		return fmt.Errorf("open the task's cgroup: %w", err)
	}
	defer dir.Close()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	return cmd.Start()
}

// startV1 starts the command from a thread that is in the cgroup, which the command
// inherits.
func (c *Cgroup) startV1(cmd *exec.Cmd) error {
	for _, dir := range c.Dirs {
		if err := os.WriteFile(filepath.Join(dir, "tasks"), []byte("0"), 0); err != nil {
			return fmt.Errorf("enter the task's cgroup: %w", err)
		}
	}
	return cmd.Start()
}

// onThread calls f on a thread that ends when f returns, so that nothing else of this
// process is ever in the cgroup. The first thread of a process is never used, because it
// cannot end.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread() // and never unlock it, which ends the thread
		if syscall.Gettid() == os.Getpid() {
			onThread(f) // try another thread: this goroutine occupies the first one
			runtime.UnlockOSThread()
		} else {
			f()
		}
		close(done)
	}()
	<-done
}
