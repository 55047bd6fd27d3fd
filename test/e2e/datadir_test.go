// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/test/e2e/harness"
)

func TestAnAgentWhoseDataDirectoryCannotBeWrittenSaysSoAndWhatToDoAndLosesNothing(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("web", "service", 1, "", "exec sleep 1000"))
	tasks := a.PIDs(a.Await("web", "running", 1))
	a.Kill()
	refused := func(what string) {
		t.Helper()
		before := len(a.Log())
		a.Launch()
		<-a.Done
		if said := a.Log()[before:]; !strings.Contains(said, "cannot be used") || !strings.Contains(said, "set data_dir") || strings.Count(said, a.Data) > 2 {
			t.Errorf("%s: %q", what, said)
		}
	}
	if err := syscall.Mount(a.Data, a.Data, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("no directory can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(a.Data, syscall.MNT_DETACH) }) // after a failure
	if err := syscall.Mount("", a.Data, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	refused("a disk that is mounted read-only")
	if err := syscall.Unmount(a.Data, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(a.Data, a.Data+".kept"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.Data, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("a file in its place")
	if err := os.Remove(a.Data); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(a.Data+".kept", a.Data); err != nil {
		t.Fatal(err)
	}

	a.start()
	for id, pid := range a.PIDs(a.Await("web", "running", 1)) {
		if tasks[id] != pid {
			t.Errorf("the task is another one: %d, it was %d", pid, tasks[id])
		}
	}
}
