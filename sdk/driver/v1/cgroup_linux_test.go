// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// realCgroup makes a cgroup on this machine, or skips the test where that cannot be.
func realCgroup(t *testing.T) (c *driver.Cgroup, name string) {
	t.Helper()
	const root = "/sys/fs/cgroup"
	name = fmt.Sprintf("drover-sdk-test-%d", os.Getpid())
	c = &driver.Cgroup{Version: 1, Dirs: map[string]string{}}
	for _, controller := range []string{"freezer", "cpu", "memory"} {
		c.Dirs[controller] = filepath.Join(root, controller, name)
	}
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		c.Version, c.Dirs = 2, map[string]string{"memory": filepath.Join(root, name)}
	}
	for _, dir := range c.Dirs {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skip("no cgroup can be made here:", err)
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil { // refused while a process or a thread is in it
				t.Error(err)
			}
		})
	}
	return c, name
}

func TestACommandIsInItsCgroupFromItsFirstInstructionOnAndItsDriverNever(t *testing.T) {
	c, name := realCgroup(t)
	for range 20 { // on whatever threads there are
		var out strings.Builder
		cmd := exec.Command("/bin/cat", "/proc/self/cgroup")
		cmd.Stdout = &out
		if err := c.Start(cmd); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "/"+name+"\n"); n != len(c.Dirs) {
			t.Fatalf("it is in %d of %d:\n%s", n, len(c.Dirs), out.String())
		}
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil || strings.Contains(string(own), name) {
		t.Errorf("the driver is in %s, %v", own, err)
	}
}

func TestACommandWithoutACgroupIsJustStarted(t *testing.T) {
	var none *driver.Cgroup
	cmd := exec.Command("/bin/true")
	if err := none.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
