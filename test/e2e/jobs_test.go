// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// deployed waits until the newest deployment of a job's version has a status.
func (a *agent) deployed(job string, version uint64, status string) {
	a.T.Helper()
	a.Eventually(20*time.Second, fmt.Sprintf("the deployment of %s version %d is %s", job, version, status), func() bool {
		all, _, err := a.JobDeployments(a.Context(), job, true, nil)
		if err != nil {
			return false
		}
		for _, d := range all {
			if d.JobVersion == version && d.Status == status {
				return true
			}
		}
		return false
	})
}

func TestAServiceIsRolledOutUpdatedScaledRevertedAndStopped(t *testing.T) {
	a := newAgent(t).start()
	update := strings.Replace(harness.Quick, "{\n", "{\n  max_parallel = 2\n", 1)
	a.Run(harness.Shell("web", "service", 4, update, "exec sleep 600"))
	a.deployed("web", 0, model.DeploymentStatusSuccessful)

	a.Run(harness.Shell("web", "service", 4, update, "exec sleep 601"))
	a.Eventually(20*time.Second, "the new version runs everywhere", func() bool {
		old, now := 0, 0
		for _, x := range a.Allocs("web", model.AllocClientStatusRunning) {
			if x.JobVersion == 1 {
				now++
			} else {
				old++
			}
		}
		if old+now > 4 {
			t.Fatalf("%d old and %d new allocs run at once, want 4 at most", old, now)
		}
		return now == 4
	})
	a.deployed("web", 1, model.DeploymentStatusSuccessful)
	a.rolled("web", 1, 2)

	a.Must("job", "scale", "-detach", "web", "g", "6")
	a.Await("web", model.AllocClientStatusRunning, 6)
	a.Must("job", "scale", "-detach", "web", "g", "2")
	a.Await("web", model.AllocClientStatusRunning, 2)

	a.Must("job", "revert", "-detach", "web", "0")
	a.Eventually(10*time.Second, "the job's script is the first one again", func() bool {
		j, _, err := a.Job(a.Context(), "web", nil)
		return err == nil && strings.Contains(fmt.Sprint(j.TaskGroups[0].Tasks[0].Config), "sleep 600")
	})
	a.Must("job", "stop", "-detach", "-purge", "web")
	a.Eventually(10*time.Second, "no alloc of the purged job runs", func() bool {
		return len(a.Allocs("web", model.AllocClientStatusRunning)) == 0 && len(a.Processes("sleep 60")) == 0
	})
	if code, body := a.HTTPGet("/v1/job/web"); code != 404 {
		t.Errorf("the purged job answers %d %s", code, body)
	}
}

// rolled checks that an update started at most width new allocs before the first one
// was healthy.
func (a *agent) rolled(job string, version uint64, width int) {
	a.T.Helper()
	var first time.Time
	var created []time.Time
	for _, x := range a.Allocs(job, "") {
		if x.JobVersion != version {
			continue
		}
		created = append(created, time.Unix(0, x.CreateTime))
		if s := x.DeploymentStatus; s != nil && (first.IsZero() || s.Timestamp.Before(first)) {
			first = s.Timestamp
		}
	}
	early := 0
	for _, at := range created {
		if at.Before(first) {
			early++
		}
	}
	if early > width || early == 0 {
		a.T.Errorf("%d of %d allocs were made before the first was healthy, want 1 to %d", early, len(created), width)
	}
}

func TestAFailingUpdateGoesBackToTheStableVersion(t *testing.T) {
	a := newAgent(t).start()
	update := strings.Replace(harness.Quick, "{\n", "{\n  auto_revert = true\n", 1) + "restart {\n attempts = 0\n mode = \"fail\"\n}\n"
	a.Run(harness.Shell("web", "service", 2, update, "exec sleep 600"))
	a.deployed("web", 0, model.DeploymentStatusSuccessful)
	// Its allocs are replaced repeatedly, so the deployment fails at its progress
	// deadline.
	soon := strings.NewReplacer(`"100ms"`, `"5s"`, `"60s"`, `"10s"`, `"75s"`, `"15s"`).Replace(update)
	a.Run(harness.Shell("web", "service", 2, soon, "exit 1"))
	a.deployed("web", 1, model.DeploymentStatusFailed)
	a.deployed("web", 2, model.DeploymentStatusSuccessful)
	j, _, err := a.Job(a.Context(), "web", nil)
	if err != nil || !strings.Contains(fmt.Sprint(j.TaskGroups[0].Tasks[0].Config), "sleep 600") {
		t.Errorf("the job is not the stable one: %v, %v", j, err)
	}
}

func TestAVersionThatFailedIsTriedAgainWhenItIsRegisteredAgain(t *testing.T) {
	a := newAgent(t).start()
	update := strings.Replace(strings.Replace(harness.Quick, `"75s"`, `"0s"`, 1), "{\n", "{\n  auto_revert = true\n", 1) + harness.OnlyOnce
	// On a loaded machine the task may take more than 100 ms until it fails: it must not be healthy by then.
	long := strings.Replace(update, `"100ms"`, `"30s"`, 1)
	good, bad := harness.Shell("web", "service", 1, update, "exec sleep 600"), harness.Shell("web", "service", 1, long, "exit 1")
	a.Run(good)
	a.deployed("web", 0, model.DeploymentStatusSuccessful)
	a.Run(bad)
	a.deployed("web", 1, model.DeploymentStatusFailed)
	a.deployed("web", 2, model.DeploymentStatusSuccessful)
	a.Run(bad) // version 3, with the specification of version 1
	a.deployed("web", 3, model.DeploymentStatusFailed)
	a.deployed("web", 4, model.DeploymentStatusSuccessful)
	if failed := a.Allocs("web", model.AllocClientStatusFailed); len(failed) != 2 {
		t.Errorf("%d allocs failed, want one of version 1 and one of version 3", len(failed))
	}
	a.Await("web", model.AllocClientStatusRunning, 1)
}

func TestAJobThatIsRegisteredAfterAPurgeIsANewOne(t *testing.T) {
	a := newAgent(t).start()
	job := harness.Shell("web", "service", 1, harness.OnlyOnce, "exit 1")
	a.Run(job)
	first := a.Await("web", model.AllocClientStatusFailed, 1)[0]
	a.Must("job", "stop", "-detach", "-purge", "web")
	a.Eventually(20*time.Second, "the failed alloc of the purged job is stopped", func() bool {
		x, _, err := a.Allocation(a.Context(), first.ID, nil)
		return err == nil && x.DesiredStatus == model.AllocDesiredStatusStop && x.ClientStatus == model.AllocClientStatusFailed
	})
	a.Run(job)
	var second *model.AllocListStub
	a.Eventually(20*time.Second, "an alloc of the new job has run", func() bool {
		for _, x := range a.Allocs("web", model.AllocClientStatusFailed) {
			if x.ID != first.ID {
				second = x
			}
		}
		return second != nil
	})
	j, _, err := a.Job(a.Context(), "web", nil)
	if err != nil || j.Version != 0 || second.JobVersion != 0 {
		t.Errorf("the new job is %+v, its alloc of version %d: %v", j, second.JobVersion, err)
	}
	own, _, err := a.JobAllocations(a.Context(), "web", false, nil)
	if err != nil || len(own) != 1 || own[0].ID != second.ID {
		t.Errorf("%d allocs pass for those of the new job: %v", len(own), err)
	}
	summary, _, err := a.JobSummary(a.Context(), "web", nil)
	if err != nil || summary.Summary["g"].Failed != 1 {
		t.Errorf("summed up as %+v: %v", summary, err)
	}
}

func TestAFailingTaskIsRestartedThenRescheduled(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("bad", "service", 1, `restart {
  attempts = 2
  interval = "1m"
  delay    = "50ms"
  mode     = "fail"
}
reschedule {
  delay          = "5s"
  delay_function = "constant"
  unlimited      = true
}
`, "exit 1"))
	failed := a.Await("bad", model.AllocClientStatusFailed, 1)[0]
	if n := failed.TaskStates["t"].Restarts; n != 2 {
		t.Errorf("restarted %d times, want 2", n)
	}
	a.Eventually(15*time.Second, "another alloc takes its place", func() bool {
		for _, x := range a.Allocs("bad", "") {
			if x.ID != failed.ID {
				return true
			}
		}
		return false
	})
}

func TestBatchJobsEndAndSystemJobsRun(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("once", "batch", 3, "", "true"))
	a.Await("once", model.AllocClientStatusComplete, 3)
	a.Eventually(5*time.Second, "the batch job is dead", func() bool {
		j, _, err := a.Job(a.Context(), "once", nil)
		return err == nil && j.Status == "dead"
	})
	a.Run(strings.Replace(harness.Shell("every", "system", 1, "", "exec sleep 600"), "count = 1", "", 1))
	a.Await("every", model.AllocClientStatusRunning, 1)
}
