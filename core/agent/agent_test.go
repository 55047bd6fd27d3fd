// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drover-project/drover/core/agent"
	"github.com/drover-project/drover/core/agent/collect"
	"github.com/drover-project/drover/core/driverschema"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
		goleak.IgnoreAnyFunction("github.com/dgraph-io/ristretto/v2/z.(*AllocatorPool).freeupAllocators"))
}

type bed struct {
	t       *testing.T
	dir     string
	driver  *fakeDriver
	servers *fakeServers
	agent   *agent.Agent
	edit    func(*agent.Config) // may be nil
	full    atomic.Int64        // percent of the disk of the allocs
}

func (b *bed) usage(context.Context, string) (disk, inodes float64, err error) {
	return float64(b.full.Load()), 0, nil
}

// dirs is how many allocs have a directory.
func (b *bed) dirs() int {
	b.t.Helper()
	entries, err := os.ReadDir(filepath.Join(b.dir, "alloc"))
	if err != nil {
		b.t.Fatal(err)
	}
	return len(entries)
}

func newBed(t *testing.T) *bed { return newBedWith(t, nil) }

func newBedWith(t *testing.T, edit func(*agent.Config)) *bed {
	b := &bed{t: t, dir: t.TempDir(), driver: newFakeDriver(), servers: newFakeServers(), edit: edit}
	b.start()
	t.Cleanup(b.close)
	return b
}

func (b *bed) start() {
	b.t.Helper()
	cfg := agent.Config{DataDir: b.dir, Servers: b.servers, Plugins: b.driver, GC: collect.Limits{MaxAllocs: 2, Interval: time.Millisecond, Usage: b.usage}}
	if b.edit != nil {
		b.edit(&cfg)
	}
	a, err := agent.New(b.t.Context(), cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := a.Start(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	b.agent = a
}

func (b *bed) close() {
	b.t.Helper()
	if err := b.agent.Close(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) eventually(what string, cond func() bool) {
	b.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			b.t.Fatalf("never: %s (starts %v, reports %+v)", what, b.driver.started(), b.servers.report("a1"))
		}
	}
}

func (b *bed) status(id, want string) {
	b.t.Helper()
	b.eventually("alloc "+id+" "+want, func() bool { return b.servers.report(id).ClientStatus == want })
}

func newTask(name string) *model.Task {
	return &model.Task{Name: name, Driver: "fake", Config: map[string]any{"say": "${NOMAD_TASK_NAME}"}, KillTimeout: time.Second,
		RestartPolicy: &model.RestartPolicy{Mode: "fail"}}
}

func hooked(name, hook string, sidecar bool) *model.Task {
	t := newTask(name)
	t.Lifecycle = &model.TaskLifecycleConfig{Hook: hook, Sidecar: sidecar}
	return t
}

func newAlloc(id string, tasks ...*model.Task) *model.Allocation {
	job := &model.Job{ID: "j", Name: "j", Namespace: "default", Type: "service", TaskGroups: []*model.TaskGroup{{Name: "g", Tasks: tasks,
		Update: &model.UpdateStrategy{HealthCheck: "task_states", MinHealthyTime: 50 * time.Millisecond, HealthyDeadline: time.Minute}}}}
	return &model.Allocation{ID: id, Name: "j.g[0]", Namespace: "default", JobID: "j", TaskGroup: "g", Job: job, DesiredStatus: "run", DeploymentID: "d1"}
}

func stopped(a *model.Allocation) *model.Allocation {
	c := a.Copy()
	c.DesiredStatus = "stop"
	return c
}

func displays(a *model.Allocation, task string) string {
	var out []string
	if s := a.TaskStates[task]; s != nil {
		for _, e := range s.Events {
			out = append(out, e.DisplayMessage)
		}
	}
	return strings.Join(out, "; ")
}

func TestAnAllocRunsBecomesHealthyAndStops(t *testing.T) {
	b := newBed(t)
	a := newAlloc("a1", newTask("web"))
	b.servers.assign(a)
	b.status("a1", "running")
	b.eventually("healthy", func() bool { return b.servers.report("a1").DeploymentStatus.IsHealthy() })
	b.servers.assign(stopped(a))
	b.status("a1", "complete")
	want := "Task received by client; Building Task Directory; Task started by client; Sent interrupt. Waiting 1s before force killing; Exit Code: 130, Signal: 2; Task successfully killed"
	if got := displays(b.servers.report("a1"), "web"); got != want {
		t.Errorf("events: %s", got)
	}
	node := b.servers.nodes[0]
	if node.ID != b.agent.NodeID() || len(node.ID) != 36 || !node.Drivers["fake"].Healthy || node.Attributes["driver.fake"] != "1" {
		t.Errorf("node %+v", node)
	}
}

func TestAFailedTaskFailsItsAllocAndItsSiblings(t *testing.T) {
	b := newBed(t)
	a := newAlloc("a1", newTask("web"), newTask("db"))
	a.Job.TaskGroups[0].Update.MinHealthyTime = 30 * time.Second // it is not healthy before it fails, however slow the machine is
	b.servers.assign(a)
	b.eventually("both run", func() bool { return b.driver.running() == 2 })
	b.driver.end("web", driver.ExitResult{ExitCode: 1})
	b.status("a1", "failed")
	r := b.servers.report("a1")
	if !r.DeploymentStatus.IsUnhealthy() || !r.TaskStates["web"].Failed || r.TaskStates["db"].Failed {
		t.Errorf("%+v", r)
	}
	if got := displays(r, "db"); !strings.Contains(got, `Task's sibling "web" failed`) {
		t.Errorf("events: %s", got)
	}
}

func TestTasksRunInTheOrderOfTheirLifecycle(t *testing.T) {
	b := newBed(t)
	b.servers.assign(newAlloc("a1", newTask("main"), hooked("init", "prestart", false), hooked("side", "prestart", true),
		hooked("post", "poststart", false), hooked("bye", "poststop", false)))
	b.eventually("init and side run", func() bool { return b.driver.running() == 2 })
	if slices.Contains(b.driver.started(), "main") {
		t.Fatal("main began before init had ended")
	}
	b.driver.end("init", driver.ExitResult{})
	b.eventually("post runs", func() bool { return slices.Contains(b.driver.started(), "post") })
	b.driver.end("post", driver.ExitResult{})
	b.eventually("healthy", func() bool { return b.servers.report("a1").DeploymentStatus.IsHealthy() })
	if slices.Contains(b.driver.started(), "bye") {
		t.Fatal("poststop began early")
	}
	b.driver.end("main", driver.ExitResult{ExitCode: 1})
	b.eventually("bye runs after the rest has ended", func() bool { return slices.Contains(b.driver.started(), "bye") && b.driver.running() == 1 })
	if s := b.servers.report("a1").ClientStatus; s == "failed" {
		t.Error("the alloc counts as ended while a task of it runs")
	}
	b.driver.end("bye", driver.ExitResult{})
	b.status("a1", "failed")
}

func TestTasksGoOnOverARestartOfTheAgent(t *testing.T) {
	b := newBed(t)
	id := b.agent.NodeID()
	b.servers.assign(newAlloc("a1", newTask("web")))
	b.servers.assign(newAlloc("a2", newTask("job")))
	b.status("a1", "running")
	b.status("a2", "running")
	b.close()
	if b.driver.running() != 2 {
		t.Fatal("a task ended with the agent")
	}
	b.driver.end("job", driver.ExitResult{ExitCode: 7})
	b.start()
	if b.agent.NodeID() != id {
		t.Error("another node id")
	}
	b.status("a2", "failed")
	if got := displays(b.servers.report("a2"), "job"); !strings.Contains(got, "Exit Code: 7") {
		t.Errorf("the true exit code is not reported: %s", got)
	}
	if n := len(b.driver.started()); n != 2 {
		t.Errorf("%d starts: %v", n, b.driver.started())
	}
	b.driver.end("web", driver.ExitResult{ExitCode: 3}) // still watched
	b.status("a1", "failed")
}

func TestATaskThatIsGoneWithoutATraceFollowsItsRestartPolicy(t *testing.T) {
	b := newBed(t)
	web := newTask("web")
	web.RestartPolicy = &model.RestartPolicy{Attempts: 3, Interval: time.Hour, Mode: "fail"}
	b.servers.assign(newAlloc("a1", web))
	b.status("a1", "running")
	b.close()
	b.driver.mu.Lock()
	clear(b.driver.tasks)
	b.driver.mu.Unlock()
	b.start()
	b.eventually("it was started again", func() bool { return len(b.driver.started()) == 2 && b.driver.running() == 1 })
	b.eventually("and says why", func() bool {
		return strings.Contains(displays(b.servers.report("a1"), "web"), "failed to restore task")
	})
}

func TestAnAllocThatServersHeldForUnknownIsReportedAtOnceWithOneEventOfEachTime(t *testing.T) {
	b := newBed(t)
	a := newAlloc("a1", newTask("web"))
	b.servers.assign(a)
	b.status("a1", "running")
	unknown := a.Copy()
	returns := func(n int) func() bool {
		return func() bool { return strings.Count(displays(b.servers.report("a1"), "web"), "Client reconnected") == n }
	}
	// A report of the node may have come before it fetches what is assigned to it.
	for i, status := range []string{model.AllocClientStatusUnknown, model.AllocClientStatusRunning} {
		unknown = unknown.Copy()
		unknown.ClientStatus = status
		unknown.AllocStates = append(unknown.AllocStates, &model.AllocState{Field: "ClientStatus", Value: model.AllocClientStatusUnknown, Time: time.Unix(int64(i+1), 0)},
			&model.AllocState{Field: "ClientStatus", Value: model.AllocClientStatusRunning, Time: time.Unix(int64(i+1), 1)})
		b.servers.assign(unknown)
		b.eventually("its task says that the node is back", returns(i+1))
	}
	again := unknown.Copy()
	again.DesiredTransition.Migrate = new(bool) // another change
	b.servers.assign(again)
	b.servers.assign(newAlloc("a2", newTask("web")))
	b.status("a2", "running") // what was assigned before is known
	if !returns(2)() {
		t.Errorf("its events are %s", displays(b.servers.report("a1"), "web"))
	}
	if n := len(b.driver.started()); n != 2 {
		t.Errorf("%d starts", n)
	}
}

func TestAnUnknownAllocThatTheNodeDoesNotKnowHasFailedAndIsNotRunAgain(t *testing.T) {
	b := newBed(t)
	a := newAlloc("a1", newTask("web"))
	a.ClientStatus = model.AllocClientStatusUnknown
	b.servers.assign(a)
	b.status("a1", "failed")
	if got := b.servers.report("a1").ClientDescription; !strings.Contains(got, "does not know the allocation any more") {
		t.Errorf("it says %q", got)
	}
	if n := len(b.driver.started()); n != 0 {
		t.Errorf("%d starts", n)
	}
}

func TestAStartThatCannotSucceedSaysWhy(t *testing.T) {
	b := newBed(t)
	bad := newTask("web")
	bad.Config = map[string]any{"sya": "x"}
	b.servers.assign(newAlloc("a1", bad))
	b.status("a1", "failed")
	if got := displays(b.servers.report("a1"), "web"); !strings.Contains(got, "sya") {
		t.Errorf("events: %s", got)
	}
	b.driver.failing = errdefs.InvalidArgumentf("no such command")
	b.servers.assign(newAlloc("a2", newTask("web")))
	b.status("a2", "failed")
	if got := displays(b.servers.report("a2"), "web"); !strings.Contains(got, "no such command; Error was unrecoverable") {
		t.Errorf("events: %s", got)
	}
}

func TestAServerThatIsBehindStopsNothing(t *testing.T) {
	b := newBed(t)
	b.servers.assign(newAlloc("a1", newTask("web")))
	b.status("a1", "running")
	b.servers.set(func() { b.servers.behind = true })
	b.eventually("the session was begun anew", func() bool {
		b.servers.mu.Lock()
		defer b.servers.mu.Unlock()
		return len(b.servers.nodes) >= 2
	})
	if b.driver.running() != 1 {
		t.Error("a healthy task was stopped because of a stale read")
	}
}

func TestWhatServersHaveForgottenEndsAndIsRemoved(t *testing.T) {
	b := newBed(t)
	b.servers.assign(newAlloc("a1", newTask("web")))
	b.status("a1", "running")
	b.servers.set(func() { delete(b.servers.allocs, "a1") })
	b.eventually("the task is stopped", func() bool { return b.driver.running() == 0 })
	b.eventually("its directory is removed", func() bool {
		_, err := os.Stat(filepath.Join(b.dir, "alloc", "a1"))
		return os.IsNotExist(err)
	})
}

func TestOldEndedAllocsAreCollected(t *testing.T) {
	b := newBed(t)
	for i := range 5 {
		id := fmt.Sprint("a", i)
		a := newAlloc(id, newTask("web"))
		a.Job.Type = "batch"
		b.servers.assign(a)
		b.status(id, "running")
		b.driver.end("web", driver.ExitResult{})
		b.status(id, "complete")
	}
	b.eventually("two are left", func() bool { return b.dirs() == 2 })
	for _, id := range []string{"a3", "a4"} {
		if _, err := os.Stat(filepath.Join(b.dir, "alloc", id)); err != nil {
			t.Errorf("a newer alloc was removed before an older one: %v", err)
		}
	}
}

func TestEndedAllocsMakeRoomOnAFullDisk(t *testing.T) {
	b := newBed(t)
	b.servers.assign(newAlloc("run", newTask("stay")))
	b.status("run", "running")
	for _, id := range []string{"a1", "a2"} {
		a := newAlloc(id, newTask("web"))
		a.Job.Type = "batch"
		b.servers.assign(a)
		b.status(id, "running")
		b.driver.end("web", driver.ExitResult{})
		b.status(id, "complete")
	}
	if b.dirs() != 3 {
		t.Fatalf("%d directories", b.dirs())
	}
	b.full.Store(81)
	b.eventually("the ended ones are gone and the running one is not", func() bool { return b.dirs() == 1 })
	if b.driver.running() != 1 {
		t.Error("a running task was ended")
	}
}

func TestAnOperatorCollectsOneAllocOrAll(t *testing.T) {
	b := newBed(t)
	for _, id := range []string{"a1", "a2"} {
		a := newAlloc(id, newTask("web"))
		a.Job.Type = "batch"
		b.servers.assign(a)
		b.status(id, "running")
		if _, err := ask[any](t, b, rpc.MethodAllocGC, rpc.AllocRequest{AllocID: id}); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("a running alloc was collected: %v", err)
		}
		b.driver.end("web", driver.ExitResult{})
		b.status(id, "complete")
	}
	if _, err := ask[any](t, b, rpc.MethodAllocGC, rpc.AllocRequest{AllocID: "a1"}); err != nil || b.dirs() != 1 {
		t.Errorf("%d directories: %v", b.dirs(), err)
	}
	b.eventually("all are collected once servers know their end", func() bool {
		if _, err := ask[any](t, b, rpc.MethodCollect, nil); err != nil {
			t.Fatal(err)
		}
		return b.dirs() == 0
	})
}

func ask[T any](t *testing.T, b *bed, method string, q any) (T, error) {
	t.Helper()
	return rpc.Ask[T](t.Context(), b.agent, method, q)
}

func TestOperatorsCanLookIntoAnAlloc(t *testing.T) {
	b := newBed(t)
	b.servers.assign(newAlloc("a1", newTask("web")))
	b.status("a1", "running")
	files, err := ask[[]model.FileInfo](t, b, rpc.MethodListFiles, rpc.FileRequest{AllocID: "a1", Path: "/"})
	if err != nil || len(files) != 2 {
		t.Errorf("%v %v", files, err)
	}
	call, _ := rpc.NewCall(rpc.MethodStreamLogs, rpc.LogRequest{AllocID: "a1", Task: "web", Type: "stdout"})
	var logs string
	err = b.agent.Call(t.Context(), call, nil, func(p []byte) error {
		var f model.StreamFrame
		err := json.Unmarshal(p, &f)
		logs += string(f.Data)
		return err
	})
	if err != nil || logs != `{"say":"web"}` {
		t.Errorf("logs %q %v", logs, err)
	}
	if _, err := ask[any](t, b, rpc.MethodStreamLogs, rpc.LogRequest{AllocID: "a1", Task: "nope", Type: "stdout"}); err == nil || err.Error() != `unknown task name "nope"` {
		t.Errorf("%v", err)
	}
	stats, err := ask[map[string]any](t, b, rpc.MethodAllocStats, rpc.AllocRequest{AllocID: "a1"})
	if err != nil || stats["Timestamp"] != float64(7e9) {
		t.Errorf("%v %v", stats, err)
	}
	now, err := ask[model.AllocTasks](t, b, rpc.MethodAllocTasks, rpc.AllocRequest{AllocID: "a1"})
	if err != nil || len(now.Tasks) != 1 || now.Tasks["web"] == nil || now.Tasks["web"].Start != nil {
		t.Errorf("what the tasks do now: %+v, %v", now, err)
	}
	if _, err := ask[any](t, b, rpc.MethodSignal, rpc.SignalRequest{AllocID: "a1", Signal: "SIGHUP"}); err != nil || len(b.driver.signals) != 1 {
		t.Errorf("%v", err)
	}
	if _, err := ask[any](t, b, rpc.MethodRestart, rpc.RestartRequest{AllocID: "a1", Task: "web"}); err != nil {
		t.Error(err)
	}
	b.eventually("restarted", func() bool { return len(b.driver.started()) == 2 })
	if _, err := ask[any](t, b, rpc.MethodAllocStats, rpc.AllocRequest{AllocID: "zz"}); !errdefs.IsNotFound(err) {
		t.Errorf("%v", err)
	}
}

func TestLogsOfATaskThatKeepsNoneAreNotWaitedFor(t *testing.T) {
	b := newBed(t)
	a := newAlloc("a1", newTask("web"))
	a.Job.TaskGroups[0].Tasks[0].LogConfig = &model.LogConfig{Disabled: true}
	b.servers.assign(a)
	b.status("a1", "running")
	for _, name := range []string{"web.stdout.0", "web.stderr.0"} { // of the test's driver
		if err := os.Remove(filepath.Join(b.dir, "alloc", "a1", "alloc", "logs", name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	for _, follow := range []bool{false, true} {
		_, err := ask[any](t, b, rpc.MethodStreamLogs, rpc.LogRequest{AllocID: "a1", Task: "web", Type: "stdout", Follow: follow})
		if !errdefs.IsNotFound(err) || !strings.Contains(err.Error(), "disabled = true") {
			t.Errorf("followed: %t: %v", follow, err)
		}
	}
}

func TestLogsAreFollowedOverRotatedFiles(t *testing.T) {
	b := newBed(t)
	b.servers.assign(newAlloc("a1", newTask("web")))
	b.status("a1", "running")
	prefix := filepath.Join(b.dir, "alloc", "a1", "alloc", "logs", "web.stdout.")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	call, _ := rpc.NewCall(rpc.MethodStreamLogs, rpc.LogRequest{AllocID: "a1", Task: "web", Type: "stdout", Origin: "end", Offset: 1, Follow: true})
	got := ""
	err := b.agent.Call(ctx, call, nil, func(p []byte) error {
		var f model.StreamFrame
		if err := json.Unmarshal(p, &f); err != nil {
			return err
		}
		got += string(f.Data)
		switch got {
		case "}":
			return os.WriteFile(prefix+"1", []byte("next"), 0o644)
		case "}next":
			cancel()
		}
		return nil
	})
	if err != nil || got != "}next" {
		t.Errorf("%q %v", got, err)
	}
}

func TestExecCarriesOutputAndExitCode(t *testing.T) {
	b := newBed(t)
	b.servers.assign(newAlloc("a1", newTask("web")))
	b.status("a1", "running")
	call, _ := rpc.NewCall(rpc.MethodExec, rpc.ExecRequest{AllocID: "a1", Task: "web", Cmd: []string{"hi"}})
	var out []string
	err := b.agent.Call(t.Context(), call, make(chan []byte), func(p []byte) error { out = append(out, string(p)); return nil })
	want := []string{`{"stdout":{"data":"aGk="}}`, `{"stdout":{"close":true}}`, `{"stderr":{"close":true}}`, `{"exited":true,"result":{"exit_code":3}}`}
	if err != nil || !slices.Equal(out, want) {
		t.Errorf("%v %v", out, err)
	}
}

func TestAnExecOfAnUnknownTaskSaysSo(t *testing.T) {
	b := newBed(t)
	b.servers.assign(newAlloc("a1", newTask("web")))
	b.status("a1", "running")
	call, _ := rpc.NewCall(rpc.MethodExec, rpc.ExecRequest{AllocID: "a1", Task: "nope", Cmd: []string{"hi"}})
	err := b.agent.Call(t.Context(), call, make(chan []byte), func([]byte) error { t.Error("it answered"); return nil })
	if !errdefs.IsInvalidArgument(err) || err.Error() != `unknown task name "nope"` {
		t.Errorf("got %v", err)
	}
}

func TestANodeMayRefuseCommandsInItsTasks(t *testing.T) {
	b := newBedWith(t, func(c *agent.Config) { c.NoExec = true })
	b.servers.assign(newAlloc("a1", newTask("web")))
	b.status("a1", "running")
	for _, q := range []rpc.ExecRequest{{AllocID: "a1", Task: "web", Cmd: []string{"hi"}}, {AllocID: "a1", Task: "web", Action: "greet"}, {AllocID: "none"}} {
		call, _ := rpc.NewCall(rpc.MethodExec, q)
		err := b.agent.Call(t.Context(), call, make(chan []byte), func([]byte) error { t.Error("it answered"); return nil })
		if !errdefs.IsPermissionDenied(err) || !strings.HasPrefix(err.Error(), "Permission denied") {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestANewNodeRegistersAsItsOperatorWants(t *testing.T) {
	for want, ineligible := range map[string]bool{model.NodeSchedulingEligible: false, model.NodeSchedulingIneligible: true} {
		b := newBedWith(t, func(c *agent.Config) { c.Ineligible = ineligible })
		if got := b.agent.Node().SchedulingEligibility; got != want {
			t.Errorf("it is %s, not %s", got, want)
		}
	}
}

func TestWhatDoesNotStopInTimeIsEndedByForce(t *testing.T) {
	b := newBed(t)
	b.driver.deaf = true
	b.servers.assign(newAlloc("a1", newTask("web"), newTask("db")))
	b.eventually("both run", func() bool { return b.driver.running() == 2 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	b.agent.StopAll(ctx)
	if n := b.driver.running(); n != 0 {
		t.Errorf("%d tasks are left", n)
	}
}

func TestNothingBeginsOnAnAgentThatStopsItsTasks(t *testing.T) {
	b := newBed(t)
	b.servers.assign(newAlloc("a1", newTask("web")))
	b.status("a1", "running")
	b.agent.StopAll(t.Context())
	b.status("a1", "complete")
	for _, id := range []string{"a2", "a3"} { // when it fetches the second, it is done with the first
		b.servers.assign(newAlloc(id, newTask("replacement")))
		b.eventually("the agent has fetched "+id, func() bool { return b.servers.fetched(id) })
	}
	if _, err := ask[any](t, b, rpc.MethodAllocStats, rpc.AllocRequest{AllocID: "a2"}); !errdefs.IsNotFound(err) {
		t.Errorf("the agent runs a replacement: %v", err)
	}
}

func TestAHundredTasksStartTogether(t *testing.T) {
	b := newBed(t)
	b.servers.set(func() {
		for i := range 100 {
			a := newAlloc(fmt.Sprint("x", i), newTask("web"))
			a.AllocModifyIndex = b.servers.index
			b.servers.allocs[a.ID] = a
		}
	})
	b.eventually("all run", func() bool {
		for i := range 100 {
			if b.servers.report(fmt.Sprint("x", i)).ClientStatus != "running" {
				return false
			}
		}
		return true
	})
}

func TestServersGetADriversSchemaOnceAndItsHashInEveryReport(t *testing.T) {
	b := newBed(t)
	var told *model.DriverInfo
	b.eventually("the servers have the schema", func() bool {
		b.servers.mu.Lock()
		defer b.servers.mu.Unlock()
		if len(b.servers.nodes) == 0 {
			return false
		}
		told = b.servers.nodes[0].Drivers["fake"]
		return len(b.servers.schemas[told.SchemaHash]) > 0
	})
	if told.PluginVersion != "1.0.0" {
		t.Fatalf("the node tells of the driver %+v", told)
	}
	b.close()
	b.start()
	b.eventually("the node registers again", func() bool {
		b.servers.mu.Lock()
		defer b.servers.mu.Unlock()
		return len(b.servers.nodes) > 1
	})
	b.servers.mu.Lock()
	defer b.servers.mu.Unlock()
	bodies := b.servers.schemas[told.SchemaHash]
	if len(bodies) != 1 || b.servers.nodes[1].Drivers["fake"].SchemaHash != told.SchemaHash {
		t.Fatalf("the schema came %d times, under the hashes %q and %q", len(bodies), told.SchemaHash, b.servers.nodes[1].Drivers["fake"].SchemaHash)
	}
	body, err := driverschema.Decode(bodies[0])
	if err != nil || body.Driver != "fake" || body.Task.Validate(map[string]any{"sya": "x"}) == nil {
		t.Fatalf("body %+v, %v", body, err)
	}
}

func TestARefusedSchemaIsNotSentAgainAndANewVersionIsReportedAtOnce(t *testing.T) {
	b := &bed{t: t, dir: t.TempDir(), driver: newFakeDriver(), servers: newFakeServers()}
	b.servers.noSchema = true
	b.start()
	t.Cleanup(b.close)
	// look returns how many schemas were refused, and what the node last told of its driver.
	look := func() (refused int, first, last *model.DriverInfo) {
		b.servers.mu.Lock()
		defer b.servers.mu.Unlock()
		if n := len(b.servers.nodes); n > 0 {
			first, last = b.servers.nodes[0].Drivers["fake"], b.servers.nodes[n-1].Drivers["fake"]
		}
		return b.servers.refused, first, last
	}
	b.eventually("the schema is refused", func() bool { n, _, _ := look(); return n == 1 })
	b.driver.upgrade("1.0.1", "shout")
	b.eventually("the new version is reported", func() bool { _, _, d := look(); return d.PluginVersion == "1.0.1" })
	refused, first, last := look()
	if first.SchemaHash == last.SchemaHash || refused != 1 {
		t.Fatalf("reported as %s and %s; refused %d times", first.SchemaHash, last.SchemaHash, refused)
	}
}
