// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent"
)

func TestRealTasksGoOnOverARestartOfTheAgent(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "driver-exec"), "../../cmd/drover-plugins")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	b := &bed{t: t, dir: t.TempDir(), driver: newFakeDriver(), servers: newFakeServers()}
	open := func() *agent.Agent {
		a, err := agent.New(t.Context(), agent.Config{DataDir: b.dir, Servers: b.servers, PluginDir: dir,
			PluginConfig: map[string]map[string]any{"raw_exec": {"enabled": true}}, Logger: hclog.NewNullLogger()})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-a.Ready()
		return a
	}
	a := open()
	begin := time.Now()
	const tasks = 100
	// Ids are new in each run, as those of real allocs.
	id := func(i int) string { return fmt.Sprintf("x%d-%d", i, begin.UnixNano()) }
	b.servers.set(func() {
		for i := range tasks {
			task := newTask("web")
			task.Driver, task.Config = "raw_exec", map[string]any{"command": "/bin/sleep", "args": []any{"600"}}
			x := newAlloc(id(i), task)
			x.AllocModifyIndex = b.servers.index
			b.servers.allocs[x.ID] = x
		}
	})
	all := func(status string) {
		t.Helper()
		b.eventually("all "+status, func() bool {
			for i := range tasks {
				if b.servers.report(id(i)).ClientStatus != status {
					return false
				}
			}
			return true
		})
	}
	all("running")
	t.Log(tasks, "tasks running after", time.Since(begin))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = open()
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	stop := time.Now()
	a.StopAll(t.Context())
	all("complete")
	t.Log("stopped after", time.Since(stop))
	if got := displays(b.servers.report(id(1)), "web"); strings.Contains(got, "restore") || strings.Count(got, "started") != 1 || !strings.Contains(got, "successfully killed") {
		t.Errorf("events: %s", got)
	}
}
