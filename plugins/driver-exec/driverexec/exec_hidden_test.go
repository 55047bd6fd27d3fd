// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/plugin"
)

// keyed returns a cell with a task whose secret is "precious", and the directory of an agent
// with a key that is "precious", too.
func keyed(t *testing.T, config map[string]any) (c *cell, agent string) {
	t.Helper()
	c = newCell(t, config)
	other := c.sleeper("other")
	agent = filepath.Join(c.dir, "agent", "server")
	if err := os.MkdirAll(agent, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(other.TaskDir, "secrets", "token"), filepath.Join(agent, "keyring")} {
		if err := os.WriteFile(file, []byte("precious"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return c, agent
}

// look is a config of a task that shows all files that are called token or keyring in a
// directory, which has other files as well.
func look(in string) map[string]any {
	return sh(fmt.Sprintf(`ls %[1]s >/dev/null || exit 1; find %[1]s \( -name token -o -name keyring \) -exec cat {} +; exit 0`, in))
}

func checkHidden(t *testing.T, c *cell, task *driver.TaskConfig) {
	t.Helper()
	if out, r := c.run(task); !r.Successful() || strings.Contains(out, "precious") {
		t.Errorf("the task ended with %+v and saw what is hidden:\n%s", r, out)
	}
}

func TestAVolumeThatContainsTheAgentsDirectoriesDoesNotShowThem(t *testing.T) {
	c, agent := keyed(t, nil)
	t.Setenv(plugin.AgentDirsEnv, filepath.Dir(agent)+"\n"+filepath.Join(c.dir, "allocs"))
	for _, mode := range []string{"private", "host-to-task"} {
		task := c.task(mode, look("/volume"))
		task.Mounts = []driver.Mount{{HostPath: c.dir, TaskPath: "/volume", PropagationMode: mode}}
		checkHidden(t, c, task)
	}
}

// TestAVolumeOfTheDirectoryOfAllTasksShowsIt: an operator who makes it means it, and the
// agent's keys stay hidden also from a volume of all of its data.
func TestAVolumeOfTheDirectoryOfAllTasksShowsIt(t *testing.T) {
	c, agent := keyed(t, nil)
	t.Setenv(plugin.AgentDirsEnv, filepath.Dir(agent)+"\n"+agent+"\n"+filepath.Join(c.dir, "allocs"))
	logs := c.task("logs", look("/volume"))
	logs.Mounts = []driver.Mount{{HostPath: filepath.Join(c.dir, "allocs"), TaskPath: "/volume", ReadOnly: true}}
	if out, r := c.run(logs); !r.Successful() || !strings.Contains(out, "precious") {
		t.Errorf("the task ended with %+v and did not see what other tasks wrote:\n%s", r, out)
	}
	all := c.task("all", look("/volume"))
	all.Mounts = []driver.Mount{{HostPath: filepath.Dir(agent), TaskPath: "/volume", ReadOnly: true}}
	checkHidden(t, c, all)
}

func TestABidirectionalVolumeThatContainsTheAgentsDirectoriesIsRefused(t *testing.T) {
	c, _ := keyed(t, nil)
	task := c.task("one", look("/volume"))
	task.Mounts = []driver.Mount{{HostPath: c.dir, TaskPath: "/volume", PropagationMode: "bidirectional"}}
	_, _, err := c.StartTask(c.ctx, task)
	if err == nil || !strings.Contains(err.Error(), "cannot be hidden") || !strings.Contains(err.Error(), "another propagation mode") {
		t.Fatalf("the start ended with %v", err)
	}
	if _, err := os.Stat(filepath.Join(c.dir, "allocs", "other")); err != nil {
		t.Fatalf("the machine no longer sees the agent's directory: %v", err)
	}
}

func TestTheAgentsDirectoriesAreHiddenByWhateverPathTheyAreShown(t *testing.T) {
	links := t.TempDir()
	t.Setenv(plugin.AgentDirsEnv, filepath.Join(links, "data"))
	for name, path := range map[string]string{
		"the directory that a link of the agent's configuration leads to": "",
		"the directory itself": "/agent",
	} {
		t.Run(name, func(t *testing.T) {
			chroot := map[string]any{"/bin": "/bin", "/lib": "/lib", "/lib64": "/lib64", "/usr": "/usr"}
			c, agent := keyed(t, nil)
			link := filepath.Join(links, "data")
			_ = os.Remove(link)
			if err := os.Symlink(filepath.Dir(agent), link); err != nil {
				t.Fatal(err)
			}
			chroot[c.dir+path] = "/seen"
			c.configure(map[string]any{"chroot_env": chroot})
			checkHidden(t, c, c.task("one", look("/seen")))
		})
	}
}
