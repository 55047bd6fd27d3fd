// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

func TestAFrozenTaskStaysSoOverKillsOfAgentAndPluginAndActsOnItsStop(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a freezer needs root")
	}
	a := newAgent(t).start()
	a.Run(job("ice", "service", harness.Quick,
		part("web", "trap 'echo end >> $NOMAD_ALLOC_DIR/data/log; exit 0' TERM INT; while :; do echo tick >> $NOMAD_ALLOC_DIR/data/log; sleep 0.05; done", "")))
	id := a.Await("ice", model.AllocClientStatusRunning, 1)[0].ID
	a.deployed("ice", 0, model.DeploymentStatusSuccessful)
	frozen := func() bool { return strings.Contains(a.Must("alloc", "status", id), "Frozen: ") }
	ticks := func() int { return len(a.steps(id)) }
	a.Eventually(20*time.Second, "the task works", func() bool { return ticks() > 0 })

	a.Must("alloc", "freeze", id, "web")
	if !frozen() {
		t.Error("alloc status does not say that the task is frozen")
	}
	before := ticks()
	a.Kill()
	for _, p := range a.PluginProcesses("driver-exec") {
		_ = syscall.Kill(p, syscall.SIGKILL) // it may have ended with its agent
	}
	a.Start()
	if !frozen() || ticks() != before {
		t.Errorf("after a restart of everything the task has worked %d times more", ticks()-before)
	}
	a.Must("alloc", "thaw", id)
	a.Eventually(20*time.Second, "the task goes on", func() bool { return ticks() > before })
	if frozen() {
		t.Error("alloc status says that a thawed task is frozen")
	}

	a.Must("alloc", "freeze", "-task", "web", id)
	a.Must("job", "stop", "-detach", "ice")
	a.Await("ice", model.AllocClientStatusComplete, 1)
	if !slices.Contains(a.steps(id), "end") {
		t.Error("the frozen task was killed instead of being asked to end")
	}
	detail, _, err := a.Allocation(a.Context(), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, e := range detail.TaskStates["web"].Events {
		if e.Type == model.TaskStarted || e.Type == model.TaskPaused || e.Type == model.TaskResumed {
			said = append(said, e.Type)
		}
	}
	if !slices.Equal(said, []string{model.TaskStarted, model.TaskPaused, model.TaskResumed, model.TaskPaused}) {
		t.Errorf("the events of the task say %q", said)
	}
}
