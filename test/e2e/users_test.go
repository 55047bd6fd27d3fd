// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// owner returns the user id of a directory.
func owner(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}

func TestEachAllocHasAUserIDOfItsOwnThroughKillsOfPluginAndAgent(t *testing.T) {
	a := newAgent(t)
	raw, err := os.ReadFile(filepath.Join(a.Dir, "agent.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	a.Write("agent.hcl", 0o600, strings.Replace(string(raw), "client {", "client {\n  users {\n    dynamic_user_min = 200000\n    dynamic_user_max = 200001\n  }\n  gc_max_allocs = 1", 1))
	a.withExec()
	a.Run(a.isolated("two", "service", 2, "id -u; touch /alloc/data/own /local/own /secrets/own && exec sleep 601"))
	two := a.Await("two", model.AllocClientStatusRunning, 2)
	first, second := two[0].ID, two[1].ID
	ids := map[string]int{first: owner(t, a.Path(first, "t/secrets")), second: owner(t, a.Path(second, "t/secrets"))}
	if ids[first]+ids[second] != 200000+200001 || ids[first] == ids[second] {
		t.Fatalf("the allocs have the ids %v", ids)
	}
	a.Eventually(harness.Patience, "both tasks sleep", func() bool { return len(a.sleepers()) == 2 })
	keep := func(when string) {
		t.Helper()
		for id, uid := range ids {
			for _, folder := range []string{"alloc", "alloc/data/own", "t", "t/local/own", "t/secrets/own"} {
				if got := owner(t, a.Path(id, folder)); got != uid {
					t.Errorf("%s: %s of alloc %s belongs to %d, want %d", when, folder, id, got, uid)
				}
			}
			if out := a.Must("alloc", "exec", "-i=false", "-t=false", id, "id", "-u"); out != fmt.Sprintln(uid) {
				t.Errorf("%s: a command in alloc %s runs as %q, want %d", when, id, out, uid)
			}
		}
	}
	keep("at first")
	plugin := a.Child()
	if err := syscall.Kill(plugin, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	a.Eventually(harness.Patience, "another plugin is in its place", func() bool {
		now := a.Child()
		_, code := a.CLI("alloc", "exec", "-i=false", "-t=false", first, "true")
		return now != 0 && now != plugin && code == 0
	})
	keep("after a kill of the plugin")
	a.Kill()
	a.start()
	a.Await("two", model.AllocClientStatusRunning, 2)
	a.Eventually(harness.Patience, "the driver has them again", func() bool {
		_, code := a.CLI("alloc", "exec", "-i=false", "-t=false", first, "true")
		_, other := a.CLI("alloc", "exec", "-i=false", "-t=false", second, "true")
		return code == 0 && other == 0
	})
	before := a.sleepers()
	for id := range ids {
		a.Must("alloc", "restart", id)
	}
	a.Eventually(harness.Patience, "both tasks were started anew", func() bool {
		now := a.sleepers()
		return len(now) == 2 && !slices.Contains(now, before[0]) && !slices.Contains(now, before[1])
	})
	keep("after a kill of the agent and a restart of the tasks")

	a.Run(a.isolated("third", "batch", 1, "id -u"))
	third := a.Await("third", model.AllocClientStatusFailed, 1)
	full, _, err := a.Allocation(a.Context(), third[0].ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if says := strings.Join(messages(full.TaskStates["t"]), "; "); !strings.Contains(says, "all user ids from 200000 to 200001 belong to allocs of this node") {
		t.Errorf("the alloc that got no id says: %s", says)
	}
	a.Must("job", "stop", "-detach", "two")
	a.Await("two", model.AllocClientStatusComplete, 2)
	a.Eventually(harness.Patience, "the directory of one that has ended is removed", func() bool { // gc_max_allocs
		_, one := os.Stat(a.Path(first, "."))
		_, other := os.Stat(a.Path(second, "."))
		return os.IsNotExist(one) || os.IsNotExist(other)
	})
	a.Run(a.isolated("fourth", "batch", 1, "id -u"))
	done := a.Await("fourth", model.AllocClientStatusComplete, 1)
	if out, err := os.ReadFile(a.Path(done[0].ID, "alloc/logs/t.stdout.0")); err != nil || string(out) != "200000\n" && string(out) != "200001\n" {
		t.Errorf("the alloc after them wrote %q, %v", out, err)
	}
}
