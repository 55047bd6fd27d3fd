// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// freezer names the files by which one version of cgroups stops and continues processes.
type freezer struct {
	file, stop, run string // the file to write to, and what stops and continues the processes
	state, stopped  string // the file that shows the state, and its line once all processes have stopped
}

var (
	freezerV1 = freezer{"freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN"}
	freezerV2 = freezer{"cgroup.freeze", "1", "0", "cgroup.events", "frozen 1"}
)

// freezerOf finds the freezer of the cgroup.
func (c *Cgroup) freezerOf() (dir string, f freezer, err error) {
	if c != nil {
		dir = c.Dirs["freezer"]
	}
	switch {
	case dir != "" && exists(dir, freezerV2.file):
		return dir, freezerV2, nil
	case dir != "" && exists(dir, freezerV1.file):
		return dir, freezerV1, nil
	}
	return "", f, errdefs.FailedPreconditionf("the task has no cgroup with a freezer; the agent must run as root on a kernel that has one (cgroups version 1 with \"freezer\", or version 2 and Linux 5.2)")
}

// Freeze stops all processes of the cgroup, including processes that join it later, and
// returns when none runs. If they do not all stop before ctx ends, they run on. Drivers
// whose tasks have a cgroup can implement PauseTask with it. FailedPrecondition: this
// machine has no freezer.
func (c *Cgroup) Freeze(ctx context.Context) error {
	dir, f, err := c.freezerOf()
	if err != nil {
		return err
	}
	if err := setValue(dir, f.file, f.stop); err != nil {
		return err
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		frozen, err := f.says(dir)
		if err == nil && frozen {
			return nil
		}
		if err == nil {
			select {
			case <-tick.C:
				continue
			case <-ctx.Done():
				err = fmt.Errorf("stop all processes of the task: %w", ctx.Err())
			}
		}
		if thaw := setValue(dir, f.file, f.run); thaw != nil {
			err = fmt.Errorf("%w; and let them run on: %w", err, thaw)
		}
		return err
	}
}

// Thaw lets the processes of the cgroup continue. On a machine without a freezer it does
// nothing, since they run already.
func (c *Cgroup) Thaw() error {
	dir, f, err := c.freezerOf()
	if err != nil {
		return nil
	}
	return setValue(dir, f.file, f.run)
}

// Frozen reports whether the processes of the cgroup are stopped. A cgroup without a
// freezer, or one that is gone, is not frozen.
func (c *Cgroup) Frozen() bool {
	dir, f, err := c.freezerOf()
	if err != nil {
		return false
	}
	frozen, err := f.says(dir)
	return err == nil && frozen
}

// says reads from the state file whether all processes have stopped.
func (f freezer) says(dir string) (bool, error) {
	raw, err := os.ReadFile(filepath.Join(dir, f.state))
	if err != nil {
		return false, fmt.Errorf("read the task's cgroup: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		if strings.TrimSpace(line) == f.stopped {
			return true, nil
		}
	}
	return false, nil
}
