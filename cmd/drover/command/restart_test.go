// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"fmt"
	"strings"
	"testing"
)

// restarting returns an agent with a job of three allocs. On the second read the
// allocs have restarted.
func restarting(t *testing.T) *fake {
	f := newFake(t, world())
	var stubs []string
	for i := range 3 {
		id := fmt.Sprintf("ffff0000-0000-0000-0000-00000000000%d", i)
		alloc := func(started string) string {
			return fmt.Sprintf(`{"ID":"%s","Name":"web.g[%d]","JobID":"web","TaskGroup":"g","ClientStatus":"running","DesiredStatus":"run","TaskStates":{"t":{"State":"running","StartedAt":"%s"},"init":{"State":"dead"}}}`, id, i, started)
		}
		before, after := alloc("2026-01-01T00:00:00Z"), alloc("2026-01-02T00:00:00Z")
		stubs = append(stubs, before)
		f.answers["GET /v1/allocation/"+id] = []string{before, after}
		f.answers["PUT /v1/client/allocation/"+id+"/restart"] = []string{"{}"}
		f.answers["PUT /v1/allocation/"+id+"/stop"] = []string{`{"EvalID":"` + evalID + `"}`}
	}
	f.answers["GET /v1/job/web/allocations"] = []string{"[" + strings.Join(stubs, ",") + "]"}
	return f
}

func TestABatchBeginsWhenTheLastOneRunsAgain(t *testing.T) {
	f := restarting(t)
	r := f.at(t, nil, "job", "restart", "-batch-size", "2", "-on-error", "fail", "web")
	if r.code != 0 || strings.Count(r.out, "restarted") != 3 {
		t.Fatalf("exit code %d:\n%s%s", r.code, r.out, r.err)
	}
	last := func(part string) int {
		n := -1
		for i, line := range f.asked {
			if strings.Contains(line, part) {
				n = i
			}
		}
		return n
	}
	first := last("PUT /v1/client/allocation/ffff0000-0000-0000-0000-000000000002/restart")
	for _, id := range []string{"0", "1"} {
		if seen := last("GET /v1/allocation/ffff0000-0000-0000-0000-00000000000" + id); seen < 0 || seen > first {
			t.Errorf("alloc %s is still looked at (%d) when the next batch begins (%d)", id, seen, first)
		}
	}
}

func TestAnErrorEndsARestartUnlessTheUserGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		args     []string
		input    string
		terminal bool
		restarts int
		says     string
	}{
		"fail":        {[]string{"-on-error", "fail"}, "", false, 1, "busy"},
		"nobody":      {nil, "", false, 1, "answer with -yes"},
		"no":          {nil, "n\n", true, 1, "was stopped before"},
		"yes":         {nil, "y\n", true, 3, "1 of 3 allocations could not be restarted"},
		"yes by flag": {[]string{"-yes"}, "", false, 3, "1 of 3 allocations could not be restarted"},
	} {
		t.Run(name, func(t *testing.T) {
			f := restarting(t)
			f.answers["PUT /v1/client/allocation/ffff0000-0000-0000-0000-000000000000/restart"] = []string{"500!busy"}
			r := f.at(t, with(c.input, c.terminal), append([]string{"job", "restart", "web"}, c.args...)...)
			if r.code != 1 || len(f.writes()) != c.restarts || !strings.Contains(r.err, c.says) {
				t.Errorf("exit code %d, %d restarts: %s%s", r.code, len(f.writes()), r.out, r.err)
			}
		})
	}
}

func TestRestartTouchesOnlyTheGroupsAndTasksThatAreNamed(t *testing.T) {
	f := restarting(t)
	if r := f.at(t, nil, "job", "restart", "-task", "t", "-batch-size", "100%", "web"); r.code != 0 || !strings.Contains(f.writes()[0], `"TaskName":"t"`) {
		t.Errorf("exit code %d, asked %v: %s", r.code, f.writes(), r.err)
	}
	f = restarting(t)
	if r := f.at(t, nil, "job", "restart", "-group", "other", "web"); r.code != 1 || !strings.Contains(r.err, `no group "other"`) || len(f.writes()) > 0 {
		t.Errorf("exit code %d, asked %v: %s", r.code, f.writes(), r.err)
	}
}
