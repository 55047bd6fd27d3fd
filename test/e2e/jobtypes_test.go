// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// kind returns a batch-like shell job with an additional block in the job.
func kind(id, jobType, block, script string) string {
	file := harness.Shell(id, jobType, 1, "", script)
	return strings.Replace(file, "{\n", "{\n  "+block+"\n", 1)
}

// children returns the children of a parent job.
func (a *agent) children(parent string) []*api.JobListStub {
	jobs, _, err := a.Jobs(a.Context(), &client.Query{Prefix: parent + "/"})
	if err != nil {
		return nil
	}
	return jobs
}

// summary returns the counts of a parent's children.
func (a *agent) summary(parent string) model.JobChildrenSummary {
	s, _, err := a.JobSummary(a.Context(), parent, nil)
	if err != nil || s.Children == nil {
		return model.JobChildrenSummary{}
	}
	return *s.Children
}

func TestSysbatchRunsOnceToItsEndAndAgainWhenItChanges(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("once", "sysbatch", 1, "", "echo done"))
	first := a.Await("once", model.AllocClientStatusComplete, 1)[0]
	a.Eventually(10*time.Second, "the job is dead", func() bool {
		j, _, err := a.Job(a.Context(), "once", nil)
		return err == nil && j.Status == model.JobStatusDead
	})
	a.Run(harness.Shell("once", "sysbatch", 1, "", "echo done")) // the same job again
	a.Must("job", "eval", "-detach", "once")
	a.Run(harness.Shell("once", "sysbatch", 1, "", "echo again"))
	for _, x := range a.Await("once", model.AllocClientStatusComplete, 2) {
		if x.ID != first.ID && x.JobVersion != 1 {
			t.Errorf("version %d has run beside the first", x.JobVersion)
		}
	}
}

func TestADispatchedJobGetsItsMetaAndPayloadOnceForEachToken(t *testing.T) {
	a := newAgent(t).start()
	file := kind("hook", "batch", `parameterized {
    payload       = "required"
    meta_required = ["who"]
    meta_optional = ["why"]
  }
  meta {
    why = "no reason"
  }`, `echo "$NOMAD_META_who: $NOMAD_META_why: $(cat $NOMAD_TASK_DIR/in/put)" > $NOMAD_ALLOC_DIR/said`)
	a.Run(strings.Replace(file, "config {", "dispatch_payload {\n file = \"in/put\"\n}\nconfig {", 1))
	dispatch := func(token string, payload string, meta map[string]string) (*api.JobDispatchResponse, error) {
		return a.DispatchJob(a.Context(), &api.JobDispatchRequest{JobID: "hook", Payload: []byte(payload), Meta: meta, IdempotencyToken: token, IdPrefixTemplate: "ci"})
	}
	me := map[string]string{"who": "me"}
	first, err := dispatch("t1", "hello", me)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(first.DispatchedJobID, "hook/dispatch-ci-") || first.EvalID == "" {
		t.Errorf("the dispatch is %+v", first)
	}
	again, err := dispatch("t1", "hello", me)
	if err != nil || again.DispatchedJobID != first.DispatchedJobID || again.EvalID != first.EvalID {
		t.Errorf("the same token gives %+v, %v", again, err)
	}
	x := a.Await(first.DispatchedJobID, model.AllocClientStatusComplete, 1)[0]
	if b, err := os.ReadFile(a.Path(x.ID, "alloc/said")); err != nil || string(b) != "me: no reason: hello\n" {
		t.Errorf("the task said %q, %v", b, err)
	}
	if j, _, err := a.Job(a.Context(), first.DispatchedJobID, nil); err != nil || string(j.Payload) != "hello" || j.ParentID != "hook" || !j.Dispatched {
		t.Errorf("the child is %+v, %v", j, err)
	}
	for want, try := range map[string]func() error{
		"Payload is not provided but required":                       func() error { _, err := dispatch("", "", me); return err },
		"Dispatch did not provide required meta keys: [who]":         func() error { _, err := dispatch("", "x", nil); return err },
		"Dispatch request included unpermitted metadata keys: [a b]": func() error { _, err := dispatch("", "x", map[string]string{"who": "", "b": "", "a": ""}); return err },
		"Payload exceeds maximum size; 16385 > 16384":                func() error { _, err := dispatch("", strings.Repeat("x", 16385), me); return err },
		"id prefix template": func() error {
			_, err := a.DispatchJob(a.Context(), &api.JobDispatchRequest{JobID: "hook", Payload: []byte("x"), Meta: me, IdPrefixTemplate: "../x"})
			return err
		},
		"dispatch priority must be between": func() error {
			_, err := a.DispatchJob(a.Context(), &api.JobDispatchRequest{JobID: "hook", Payload: []byte("x"), Meta: me, Priority: 101})
			return err
		},
		`parameterized job not found`: func() error { _, err := a.DispatchJob(a.Context(), &api.JobDispatchRequest{JobID: "nope"}); return err },
		fmt.Sprintf("Specified job %q is not a parameterized job", x.JobID): func() error {
			_, err := a.DispatchJob(a.Context(), &api.JobDispatchRequest{JobID: x.JobID})
			return err
		},
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	a.Eventually(10*time.Second, "one dead child is counted", func() bool { return a.summary("hook") == model.JobChildrenSummary{Dead: 1} })

	a.Must("job", "stop", "-detach", "hook")
	if _, err := dispatch("", "x", me); err == nil || !strings.Contains(err.Error(), "is stopped") {
		t.Errorf("a stopped job was dispatched: %v", err)
	}
}

func TestAPeriodicJobIsLaunchedAtItsTimesOverACrashWithoutDoubleOrStorm(t *testing.T) {
	a := newAgent(t).start()
	a.Run(kind("tick", "batch", `periodic { crons = ["*/2 * * * * * *"] }`, "true"))
	a.Eventually(20*time.Second, "two launches have come to their end", func() bool { return a.summary("tick").Dead >= 2 })
	before := len(a.children("tick"))
	a.Kill()
	down := time.Now()
	a.Eventually(20*time.Second, "several launches are missed", func() bool { return time.Since(down) > 7*time.Second })
	a.start()
	a.Eventually(20*time.Second, "it goes on", func() bool { return len(a.children("tick")) >= before+3 })
	a.Must("job", "stop", "-detach", "tick")

	times := map[int64]int{}
	missed := 0
	for _, j := range a.children("tick") {
		var at int64
		if _, err := fmt.Sscanf(j.ID, "tick/periodic-%d", &at); err != nil {
			t.Fatal(err)
		}
		if times[at]++; times[at] > 1 {
			t.Errorf("%d was launched twice", at)
		}
		if at%2 != 0 {
			t.Errorf("%d is no time of its schedule", at)
		}
		if at > down.Unix()+1 && at <= down.Unix()+6 {
			missed++
		}
	}
	if missed > 1 {
		t.Errorf("%d of the times while the agent was down were made up for", missed)
	}
	// A stopped job launches no children, not even by force.
	count := len(a.children("tick"))
	if _, err := a.ForcePeriodic(a.Context(), "tick"); err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("a stopped job was forced: %v", err)
	}
	stopped := time.Now()
	a.Eventually(10*time.Second, "time passes", func() bool { return time.Since(stopped) > 3*time.Second })
	if n := len(a.children("tick")); n != count {
		t.Errorf("%d launches after it was stopped", n-count)
	}
}

func TestOverlapIsProhibitedWhereTheJobSaysSoButNotByForce(t *testing.T) {
	a := newAgent(t).start()
	a.Run(kind("slow", "batch", `periodic {
    crons            = ["* * * * * * *"]
    prohibit_overlap = true
  }`, "sleep 600"))
	a.Eventually(20*time.Second, "it is launched", func() bool { return a.summary("slow").Running == 1 })
	launched := time.Now()
	a.Eventually(10*time.Second, "its next times pass", func() bool { return time.Since(launched) > 3*time.Second })
	if n := len(a.children("slow")); n != 1 {
		t.Errorf("%d launches at once", n)
	}
	if _, err := a.ForcePeriodic(a.Context(), "slow"); err != nil {
		t.Fatal(err)
	}
	a.Eventually(20*time.Second, "the forced one runs beside it", func() bool { return a.summary("slow").Running == 2 })
	for _, j := range a.children("slow") {
		a.Must("job", "stop", "-detach", j.ID)
	}
	a.Eventually(30*time.Second, "it is launched again once they have ended", func() bool { return a.summary("slow").Running == 1 && len(a.children("slow")) == 3 })
}

func TestCronsThatCannotWorkAreRefusedInWords(t *testing.T) {
	a := newAgent(t).start()
	for block, want := range map[string]string{
		`periodic { crons = ["0 0 31 2 *"] }`:                                 "it never fires",
		`periodic { crons = ["0 0 1 1 * 2020"] }`:                             "would never be launched",
		`periodic { crons = ["not a cron"] }`:                                 "Invalid cron spec",
		"periodic {\n crons = [\"@daily\"]\n time_zone = \"Mars/Olympus\"\n}": "Invalid time zone",
	} {
		draft, err := a.ParseJob(a.Context(), &api.JobParseRequest{JobHCL: kind("bad", "batch", block, "true"), Canonicalize: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.RegisterJob(a.Context(), &api.JobRegisterRequest{Job: draft}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", block, err, want)
		}
	}
	a.Run(kind("often", "batch", `periodic { crons = ["@hourly"] }`, "true"))
	draft, err := a.ParseJob(a.Context(), &api.JobParseRequest{JobHCL: kind("often", "batch", `periodic { crons = ["* * * * * * *"] }`, "true"), Canonicalize: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.RegisterJob(a.Context(), &api.JobRegisterRequest{Job: draft})
	if err != nil || !strings.Contains(r.Warnings, "launches the job every 1s") {
		t.Errorf("no warning of launches each second: %+v, %v", r, err)
	}
}

func TestFailedAllocsAreReplacedWhenSomebodyForcesIt(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("broken", "batch", 1, harness.OnlyOnce, "exit 1"))
	first := a.Await("broken", model.AllocClientStatusFailed, 1)[0]
	a.Must("job", "eval", "-detach", "broken")
	a.Must("job", "eval", "-detach", "-force-reschedule", "broken")
	a.Await("broken", model.AllocClientStatusFailed, 2)
	x, _, err := a.Allocation(a.Context(), first.ID, nil)
	if err != nil || x.NextAllocation == "" || x.DesiredDescription != "alloc was rescheduled because it failed" {
		t.Errorf("the first alloc: next %q, %q, %v", x.NextAllocation, x.DesiredDescription, err)
	}
}

func TestASystemJobIsDeployedByHealth(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("sys", "system", 1, harness.Quick, "exec sleep 600"))
	a.deployed("sys", 0, model.DeploymentStatusSuccessful)
	a.Run(harness.Shell("sys", "system", 1, harness.Quick, "exec sleep 601"))
	a.deployed("sys", 1, model.DeploymentStatusSuccessful)
	if x := a.Await("sys", model.AllocClientStatusRunning, 1)[0]; x.JobVersion != 1 || x.DeploymentStatus == nil || !x.DeploymentStatus.IsHealthy() {
		t.Errorf("version %d runs, health %+v", x.JobVersion, x.DeploymentStatus)
	}
	a.Run(harness.Shell("plain", "system", 1, "", "exec sleep 600")) // without an update block there is nothing to wait for
	a.deployed("plain", 0, model.DeploymentStatusSuccessful)
	a.Await("plain", model.AllocClientStatusRunning, 1)
}
