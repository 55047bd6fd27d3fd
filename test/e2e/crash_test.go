// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

func TestEveryAcknowledgedJobSurvivesAKillInTheMiddleOfAThousand(t *testing.T) {
	a := newAgent(t).start()
	draft, err := a.ParseJob(a.Context(), &api.JobParseRequest{JobHCL: harness.Shell("NAME", "service", 0, "", "sleep 60"), Canonicalize: true})
	if err != nil {
		t.Fatal(err)
	}
	var (
		work  sync.WaitGroup
		acked sync.Map
		count atomic.Int32
		next  = make(chan int)
		ctx   = a.Context()
	)
	for range 32 {
		work.Go(func() {
			for i := range next {
				id := fmt.Sprintf("job-%04d", i)
				_, err := a.RegisterJob(ctx, &api.JobRegisterRequest{Job: json.RawMessage(bytes.ReplaceAll(draft, []byte("NAME"), []byte(id)))})
				if err == nil {
					acked.Store(id, true)
					count.Add(1)
				}
			}
		})
	}
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		for i := range 1000 {
			next <- i
			if count.Load() == 400 && a.Alive() { // only once: after that the agent is dead
				_ = a.Cmd.Process.Kill()
			}
		}
	}()
	<-killed
	close(next)
	work.Wait()
	if a.Alive() {
		a.Kill()
	}
	<-a.Done
	a.start()
	have := map[string]bool{}
	jobs, _, err := a.Jobs(a.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		have[j.ID] = true
	}
	lost := 0
	acked.Range(func(id, _ any) bool {
		if !have[id.(string)] {
			lost++
		}
		return true
	})
	t.Logf("%d acknowledged, %d found", count.Load(), len(have))
	if lost > 0 || count.Load() < 100 {
		t.Errorf("%d acknowledged jobs are lost of %d", lost, count.Load())
	}
}

func TestTasksLiveOverAKillOfTheAgentAndAreManagedAgain(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("long", "service", 5, "", "exec sleep 600"))
	a.Run(harness.Shell("short", "batch", 1, "restart {\n attempts = 0\n mode = \"fail\"\n}\nreschedule {\n attempts = 0\n unlimited = false\n}\n",
		"while [ ! -e $NOMAD_TASK_DIR/go ]; do sleep 0.02; done; exit 7"))
	before := a.PIDs(a.Await("long", model.AllocClientStatusRunning, 5))
	short := a.Await("short", model.AllocClientStatusRunning, 1)
	pid := a.PIDs(short)[short[0].ID]
	a.Kill()
	if err := os.WriteFile(a.Path(short[0].ID, "t/local/go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a.Eventually(5*time.Second, "the short task has ended", func() bool { return !harness.Running(pid) })
	a.start()
	if got := a.PIDs(a.Await("long", model.AllocClientStatusRunning, 5)); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("pids before %v, after %v", before, got)
	}
	a.Await("short", model.AllocClientStatusFailed, 1)
	if code := exitCode(a, short[0].ID); code != 7 {
		t.Errorf("the task that ended meanwhile has exit code %d, want 7", code)
	}
	a.Must("job", "stop", "-detach", "long")
	a.Await("long", model.AllocClientStatusComplete, 5)
	for _, pid := range before {
		if harness.Running(pid) {
			t.Errorf("%d runs after its job was stopped", pid)
		}
	}
}

// exitCode returns the last exit code that an alloc's task reports, or -1.
func exitCode(a *agent, alloc string) int {
	a.T.Helper()
	x, _, err := a.Allocation(a.Context(), alloc, nil)
	if err != nil {
		a.T.Fatal(err)
	}
	code := -1
	for _, e := range x.TaskStates["t"].Events {
		if e.Type == "Terminated" {
			code = e.ExitCode
		}
	}
	return code
}

func TestTasksLiveOverAKillOfThePlugin(t *testing.T) {
	a := newAgent(t).start()
	killHelper(t, a, func() int { return a.Child() })
}

func TestTasksLiveOverAKillOfTheSupervisor(t *testing.T) {
	a := newAgent(t).start()
	killHelper(t, a, func() int {
		if pids := a.Processes("__drover-supervise loop"); len(pids) == 1 {
			return pids[0]
		}
		return 0
	})
}

// killHelper kills a process on which tasks must not depend, and checks the tasks.
func killHelper(t *testing.T, a *agent, find func() int) {
	t.Helper()
	a.Run(harness.Shell("web", "service", 3, "", "exec sleep 600"))
	before := a.PIDs(a.Await("web", model.AllocClientStatusRunning, 3))
	victim := 0
	a.Eventually(harness.Patience, "there is a process to kill", func() bool {
		victim = find()
		return victim != 0
	})
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	a.Eventually(15*time.Second, "another process is in its place", func() bool {
		now := find()
		for _, x := range a.Allocs("web", "") {
			if x.ClientStatus != model.AllocClientStatusRunning {
				t.Fatalf("alloc %s is %s", x.ID, x.ClientStatus)
			}
		}
		return now != 0 && now != victim
	})
	if got := a.PIDs(a.Await("web", model.AllocClientStatusRunning, 3)); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("pids before %v, after %v", before, got)
	}
	// Tasks are still managed: new ones start, old ones stop.
	a.Run(harness.Shell("more", "service", 1, "", "exec sleep 600"))
	a.Await("more", model.AllocClientStatusRunning, 1)
	a.Must("job", "stop", "-detach", "web")
	for _, x := range a.Await("web", model.AllocClientStatusComplete, 3) {
		if events := fmt.Sprint(x.TaskStates["t"].Failed); strings.Contains(events, "true") {
			t.Errorf("the task of %s failed", x.ID)
		}
	}
	for _, pid := range before {
		if harness.Running(pid) {
			t.Errorf("%d runs after its job was stopped", pid)
		}
	}
}
