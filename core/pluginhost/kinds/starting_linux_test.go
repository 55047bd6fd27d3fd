// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"os/exec"
	"testing"
)

// TestTheProcessOfACommandIsNotMovedWhileTheCommandRuns: it may be about to enter the cgroup
// of its task when the start of another task ends.
func TestTheProcessOfACommandIsNotMovedWhileTheCommandRuns(t *testing.T) {
	var child *exec.Cmd
	var moved bool
	d := &Drivers{cfg: Config{Started: func(_ string, settled func(int) bool) { moved = settled(child.Process.Pid) }}}
	command := d.starting("plugin")
	child = exec.CommandContext(t.Context(), "sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait() // it was killed
	}()
	d.starting("plugin")()
	if moved {
		t.Error("the process of the command is moved when a start ends")
	}
	command()
	if !moved {
		t.Error("what the command has left stays in the limits of the plugin")
	}
}
