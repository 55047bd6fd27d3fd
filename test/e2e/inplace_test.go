// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

// sleeper returns a service of one isolated task with this memory, which it gets in place.
func (a *agent) sleeper(memory string) string {
	job := a.isolated("resize", "service", 1, "exec sleep 601")
	job = strings.Replace(job, "    restart {", `    update {
      min_healthy_time = "0s"
      resources        = "in_place"
    }
    restart {`, 1)
	return strings.Replace(job, "memory = 20", "memory = "+memory, 1)
}

// inside reads a limit of the running task from its own cgroup.
func (a *agent) inside(alloc string) string {
	out, _ := a.CLI("alloc", "exec", "-i=false", "-t=false", alloc, "/bin/sh", "-c",
		"cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max")
	return strings.TrimSpace(out)
}

func TestARunningTaskGetsOtherResources(t *testing.T) {
	a := newAgent(t).withExec()
	a.Run(a.sleeper("20"))
	first := a.Await("resize", model.AllocClientStatusRunning, 1)[0]
	pids := a.sleepers()
	file := filepath.Join(a.Dir, "resize.nomad.hcl")
	if err := os.WriteFile(file, []byte(a.sleeper("48")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := a.CLI("job", "plan", file); code != 0 || !strings.Contains(out, "1 in-place update") || !strings.Contains(out, `"20" => "48"`) {
		t.Errorf("plan: %d\n%s", code, out)
	}
	for _, memory := range []string{"48", "24"} {
		a.Run(a.sleeper(memory))
		event := "memory " + memory + " MiB"
		a.Eventually(30*time.Second, "the task has "+event, func() bool {
			x, _, err := a.Allocation(a.Context(), first.ID, nil)
			return err == nil && slices.ContainsFunc(x.TaskStates["t"].Events, func(e *model.TaskEvent) bool {
				return e.Type == model.TaskResourcesUpdated && strings.Contains(e.DisplayMessage, event)
			})
		})
		want := map[string]string{"48": "50331648", "24": "25165824"}[memory]
		if got := a.inside(first.ID); got != want {
			t.Errorf("the kernel gives the task %s bytes, want %s", got, want)
		}
	}
	if now := a.Await("resize", model.AllocClientStatusRunning, 1); now[0].ID != first.ID || !slices.Equal(a.sleepers(), pids) {
		t.Errorf("alloc %s with the processes %v has become %s with %v", first.ID, pids, now[0].ID, a.sleepers())
	}
	if all := a.Allocs("resize", ""); len(all) != 1 {
		t.Errorf("%d allocs, want 1", len(all))
	}
}
