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
)

func TestTasksOfTwoAllocsWithUserIDsOfTheirOwnCannotReachEachOther(t *testing.T) {
	// In the host's pid namespace, because otherwise the tasks cannot even see each
	// other.
	c := newCell(t, map[string]any{"default_pid_mode": "host"})
	victim := c.task("victim", sh("echo $$ > /local/pid; echo s3cret > /alloc/data; chmod 600 /alloc/data; exec sleep 601"))
	victim.DynamicUID = 200001
	victim.Env["TOKEN"] = "s3cret"
	c.start(victim)
	var pid string
	c.eventually("the first task runs", func() bool {
		body, err := os.ReadFile(filepath.Join(victim.TaskDir, "local", "pid"))
		pid = strings.TrimSpace(string(body))
		return err == nil && pid != ""
	})
	// The environment of a process can be read by those who may trace it.
	script := fmt.Sprintf("id -u; id -g; kill -0 %[1]s && echo signals; cat /proc/%[1]s/environ | grep -q TOKEN && echo reads; ls /proc/%[1]s/root/ >/dev/null && echo enters; echo end", pid)
	for name, x := range map[string]struct {
		uid  int
		want string
	}{
		"another": {200002, "200002\n200002\nend\n"},
		"same":    {200001, "200001\n200001\nsignals\nreads\nenters\nend\n"}, // proves that the test can detect it
	} {
		task := c.task(name, sh("exec 2>/dev/null; "+script))
		task.DynamicUID = x.uid
		if out, r := c.run(task); !r.Successful() || out != x.want {
			t.Errorf("the %s id: %+v, %q, want %q", name, r, out, x.want)
		}
	}
	if out, r, err := c.exec(victim, "/bin/sh", "-c", "id -u; cat /alloc/data"); err != nil || !r.Successful() || out != "200001\ns3cret\n" {
		t.Errorf("a command in the task: %q, %+v, %v", out, r, err)
	}
}

func TestAUserIDOfAnAllocIsRefusedWhereTheOperatorDeniesIt(t *testing.T) {
	c := newCell(t, map[string]any{"denied_host_uids": "200000-200010"})
	task := c.task("denied", sh("true"))
	task.DynamicUID = 200001
	if _, _, err := c.StartTask(c.ctx, task); err == nil {
		t.Error("it was started")
		_ = c.DestroyTask(c.ctx, task.Ref(), true) // the start should have failed
	}
}
