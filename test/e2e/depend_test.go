// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

// dependsOn is a block of a task.
func dependsOn(name, condition, limit string) string {
	return fmt.Sprintf("depends_on %q {\n condition = %q\n timeout = %q\n }", name, condition, limit)
}

func TestTasksWaitForThoseOnWhichTheyDepend(t *testing.T) {
	a := newAgent(t).start()
	note := func(word, then string) string {
		return "echo " + word + " >> $NOMAD_ALLOC_DIR/data/log; " + then
	}
	// Before the agent is killed, so that the restart of its server is in the middle.
	second := strings.Replace(job("second", "batch", part("t", "true", "")), "  group", dependsOn("first", "complete", "10m")+"\n  group", 1)
	file := a.Write("second.nomad.hcl", 0o644, second)
	const words = `waits for job "first" to be complete`
	if out := a.Must("job", "validate", file); !strings.Contains(out, `there is no job "first" in namespace "default" yet`) {
		t.Errorf("job validate:\n%s", out)
	}
	if out, _ := a.CLI("job", "plan", file); !strings.Contains(out, `Group "g" `+words+": it does not exist; limit in ") {
		t.Errorf("job plan:\n%s", out)
	}
	eval := a.Run(second)

	a.Run(job("pipeline", "batch",
		part("report", note("report", ""), dependsOn("load", "complete", "10m")),
		part("load", note("load", ""), dependsOn("extract", "complete", "10m")),
		part("watch", note("watch", "while ! grep -q report $NOMAD_ALLOC_DIR/data/log; do sleep 0.1; done"), dependsOn("extract", "started", "10m")),
		part("extract", "while [ ! -e $NOMAD_ALLOC_DIR/data/go ]; do sleep 0.1; done; "+note("extract", ""), "")))
	id := a.Await("pipeline", model.AllocClientStatusRunning, 1)[0].ID
	a.Eventually(30*time.Second, "alloc status says what a task waits for", func() bool {
		return strings.Contains(a.Must("alloc", "status", id), `step "dependencies"`)
	})
	if out := a.Must("alloc", "explain", id); !strings.Contains(out, `Task "report" waits for task "load" to be complete: it has not begun; limit in `) {
		t.Errorf("alloc explain:\n%s", out)
	}
	a.Kill()
	a.Start()
	a.Must("alloc", "exec", "-task", "extract", id, "/bin/sh", "-c", "touch $NOMAD_ALLOC_DIR/data/go")
	a.Await("pipeline", model.AllocClientStatusComplete, 1)
	steps := slices.DeleteFunc(a.steps(id), func(s string) bool { return s == "watch" })
	if want := []string{"extract", "load", "report"}; !slices.Equal(steps, want) {
		t.Errorf("the steps were %v, want %v", steps, want)
	}

	a.Run(job("late", "batch", "reschedule {\n attempts = 0\n unlimited = false\n }",
		part("web", "true", dependsOn("db", "complete", "1s")), part("db", "exec sleep 1000", "")))
	failed := a.Await("late", model.AllocClientStatusFailed, 1)[0].ID
	if out := a.Must("alloc", "status", failed); !strings.Contains(out, `The task has waited 1s for task "db" to be complete`) {
		t.Errorf("alloc status:\n%s", out)
	}

	for _, args := range [][]string{{"job", "status", "second"}, {"job", "explain", "second"}, {"eval", "status", eval}, {"eval", "explain", eval}} {
		a.Eventually(30*time.Second, strings.Join(args[:2], " ")+" says what the job waits for", func() bool {
			out, _ := a.CLI(args...)
			return strings.Contains(out, words)
		})
	}
	cycle := a.Write("first.nomad.hcl", 0o644, strings.NewReplacer("second", "first", `"first"`, `"second"`).Replace(second))
	if out, code := a.CLI("job", "validate", cycle); code == 0 || !strings.Contains(out, "first -> second -> first") {
		t.Errorf("job validate of a cycle: %d\n%s", code, out)
	}
	a.Run(job("first", "batch", part("t", "true", "")))
	a.Await("second", model.AllocClientStatusComplete, 1)

	example, err := os.ReadFile("../../examples/dependencies.nomad.hcl")
	if err != nil {
		t.Fatal(err)
	}
	a.Run(strings.Replace(string(example), `job "pipeline"`, `job "groups"`, 1))
	var order []string
	for _, x := range a.Await("groups", model.AllocClientStatusComplete, 4) {
		order = append(order, fmt.Sprintf("%020d %s", x.CreateIndex, x.TaskGroup))
	}
	slices.Sort(order)
	for i := range order {
		order[i] = order[i][21:]
	}
	if want := []string{"extract", "extract", "load", "report"}; !slices.Equal(order, want) {
		t.Errorf("the groups were placed in the order %v, want %v", order, want)
	}

	a.Run(strings.NewReplacer("10m", "1s", `"second"`, `"late-job"`, `"first"`, `"never"`).Replace(second))
	a.Eventually(30*time.Second, "a wait ends at its limit", func() bool {
		return strings.Contains(a.Must("job", "status", "late-job"), `Group "g" has waited too long for job "never"`)
	})
}
