// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/drover-project/drover/sdk/osthread"
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
	return osthread.Do(func() error { return c.startV1(cmd) })
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
