// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package procfs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/procfs"
)

// The kernel writes the name of a program between parentheses and escapes nothing in it.
func TestAProgramCannotForgeItsStateByItsName(t *testing.T) {
	file := filepath.Join(t.TempDir(), ") Z 1 1 (x")
	if err := os.Symlink("/bin/sleep", file); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(file, "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	pid := cmd.Process.Pid
	p, err := procfs.Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	if p.PID != pid || p.Parent != os.Getpid() || p.Group != pid || p.Session != pid || p.Zombie || p.Start == 0 {
		t.Errorf("%+v", p)
	}
	if !slices.Contains(procfs.PIDs(), pid) {
		t.Error("it is not listed")
	}
}

func TestAProcessThatHasEndedIsAZombieUntilItsParentWaits(t *testing.T) {
	cmd := exec.Command("sh", "-c", "exit 7")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	for {
		p, err := procfs.Read(pid)
		if err != nil {
			t.Fatal(err)
		}
		if p.Zombie {
			if got := syscall.WaitStatus(p.Exit).ExitStatus(); got != 7 {
				t.Errorf("exit %d", got)
			}
			break
		}
	}
	_ = cmd.Wait() // its exit is no error here
	if _, err := procfs.Read(pid); !errdefs.IsNotFound(err) {
		t.Errorf("after its parent has waited: %v", err)
	}
}
