// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/checks"
	"github.com/drover-project/drover/core/model"
)

// rolledOut is an alloc of a deployment with a check.
func rolledOut(health string, check *model.ServiceCheck) *model.Allocation {
	a := newAlloc(newTask("web"))
	g := a.Job.TaskGroups[0]
	a.DeploymentID = "d1"
	g.Update = &model.UpdateStrategy{MaxParallel: 1, HealthCheck: health, MinHealthyTime: 10 * time.Second, HealthyDeadline: time.Minute}
	g.Services = []*model.Service{{Name: "http", Provider: "nomad", PortLabel: "http", Checks: []*model.ServiceCheck{check}}}
	a.AllocatedResources = &model.AllocatedResources{
		Tasks:  map[string]*model.AllocatedTaskResources{"web": {}},
		Shared: model.AllocatedSharedResources{Ports: []model.AllocatedPortMapping{{Label: "http", Value: 8080, HostIP: "10.0.0.1"}}},
	}
	return a
}

// checkWith has the checks of the bed's alloc answer what f says.
func (b *bed) checkWith(f func(t checks.Target) checks.Outcome) {
	b.cfg.Checks.Close()
	b.cfg.Checks = checks.New(checks.Config{Now: time.Now, Jitter: func() float64 { return 0 }, Logger: b.cfg.Logger, Ask: func(_ context.Context, t checks.Target) checks.Outcome { return f(t) }})
}

var (
	passes = checks.Outcome{Status: checks.Success}
	fails  = checks.Outcome{Status: checks.Failure, Output: "refused"}
)

func (b *bed) health() string {
	s := b.r.View().DeploymentStatus
	if s == nil || s.Healthy == nil {
		return "undecided"
	}
	return map[bool]string{true: "healthy", false: "unhealthy"}[*s.Healthy]
}

func TestChecksDecideWhetherAnAllocIsHealthy(t *testing.T) {
	check := func(change func(c *model.ServiceCheck)) *model.ServiceCheck {
		c := &model.ServiceCheck{Type: "tcp", Interval: 5 * time.Second, Timeout: time.Second}
		change(c)
		return c
	}
	tcp := check(func(*model.ServiceCheck) {})
	at := func(seconds ...int) func(time.Duration) checks.Outcome { // fails from a time to a time, and so on
		return func(d time.Duration) checks.Outcome {
			for i := 0; i < len(seconds); i += 2 {
				if d >= time.Duration(seconds[i])*time.Second && d < time.Duration(seconds[i+1])*time.Second {
					return fails
				}
			}
			return passes
		}
	}
	warns := func(time.Duration) checks.Outcome { return checks.Outcome{Status: checks.Warning} }
	for name, c := range map[string]struct {
		alloc  *model.Allocation
		answer func(since time.Duration) checks.Outcome
		when   time.Duration // the verdict comes then, and not earlier
		want   string
	}{
		"that pass at once":            {rolledOut("checks", tcp), at(), 10 * time.Second, "healthy"},
		"that pass later":              {rolledOut("checks", tcp), at(0, 21), 35 * time.Second, "healthy"},
		"that flap":                    {rolledOut("checks", tcp), at(4, 6), 20 * time.Second, "healthy"},
		"that never pass":              {rolledOut("checks", tcp), at(0, 1000), 60 * time.Second, "unhealthy"},
		"that pass too late":           {rolledOut("checks", tcp), at(0, 54), 60 * time.Second, "unhealthy"},
		"that warn":                    {rolledOut("checks", tcp), warns, 60 * time.Second, "unhealthy"},
		"that may warn":                {rolledOut("checks", check(func(c *model.ServiceCheck) { c.OnUpdate = "ignore_warnings" })), warns, 10 * time.Second, "healthy"},
		"that are ignored":             {rolledOut("checks", check(func(c *model.ServiceCheck) { c.OnUpdate = "ignore" })), at(0, 1000), 10 * time.Second, "healthy"},
		"that may fail twice":          {rolledOut("checks", check(func(c *model.ServiceCheck) { c.FailuresBeforeCritical = 3 })), at(4, 11), 10 * time.Second, "healthy"},
		"of a port that is not here":   {rolledOut("checks", check(func(c *model.ServiceCheck) { c.PortLabel = "admin" })), at(), 60 * time.Second, "unhealthy"},
		"of a task that is not here":   {rolledOut("checks", check(func(c *model.ServiceCheck) { c.TaskName = "nope" })), at(), 60 * time.Second, "unhealthy"},
		"that nobody asks for":         {rolledOut("task_states", tcp), at(0, 1000), 10 * time.Second, "healthy"},
		"that must pass several times": {rolledOut("checks", check(func(c *model.ServiceCheck) { c.SuccessBeforePassing = 3 })), at(), 20 * time.Second, "healthy"},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, b *bed) {
				begin := time.Now()
				b.checkWith(func(target checks.Target) checks.Outcome {
					if target.Address != "10.0.0.1:8080" {
						t.Errorf("asked %s", target.Address)
					}
					return c.answer(time.Since(begin))
				})
				b.run(c.alloc)
				time.Sleep(c.when - time.Second)
				synctest.Wait()
				if got := b.health(); got != "undecided" {
					t.Fatalf("%s before its time", got)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if got := b.health(); got != c.want {
					t.Fatalf("the alloc is %s, want %s; checks: %+v", got, c.want, b.r.CheckResults())
				}
			})
		})
	}
}

func TestCheckRestartRestartsTheTaskWithinItsRestartPolicy(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.checkWith(func(checks.Target) checks.Outcome { return fails })
		a := rolledOut("task_states", &model.ServiceCheck{
			Name: "alive", Type: "tcp", Interval: time.Second, Timeout: time.Second, CheckRestart: &model.CheckRestart{Limit: 3, Grace: 5 * time.Second},
		})
		a.Job.TaskGroups[0].Tasks[0].RestartPolicy = &model.RestartPolicy{Attempts: 1, Interval: time.Hour, Delay: 15 * time.Second, Mode: "fail"}
		b.run(a)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		b.wants("web", "running")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		b.hasEvent("web", `healthcheck: check "alive" unhealthy`)
		b.hasEvent("web", "Task restarting in 15s")
		time.Sleep(15 * time.Second)
		synctest.Wait()
		b.wants("web", "running")
		time.Sleep(10 * time.Second) // the policy allows no second one
		synctest.Wait()
		b.wants("", "failed")
		b.hasEvent("web", "Exceeded allowed attempts 1 in interval 1h0m0s")
		if got := b.r.CheckResults(); len(got) != 0 {
			t.Errorf("an ended alloc still has checks: %+v", got)
		}
	})
}

func TestHealthDoesNotFlapWhenTheAgentStartsAnew(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		asked := 0
		b.checkWith(func(checks.Target) checks.Outcome { asked++; return passes })
		b.run(rolledOut("checks", &model.ServiceCheck{Type: "tcp", Interval: 30 * time.Second, Timeout: time.Second}))
		time.Sleep(8 * time.Second)
		synctest.Wait()
		b.restart(nil)
		synctest.Wait()
		if got := b.r.CheckResults(); len(got) != 1 || got[0].Status != checks.Success {
			t.Fatalf("after the restart: %+v", got)
		}
		time.Sleep(3 * time.Second) // min_healthy_time counts on, if the check passes once more
		synctest.Wait()
		if got := b.health(); got != "healthy" || asked != 2 {
			t.Errorf("the alloc is %s, and the check was asked %d times", got, asked)
		}
	})
}

func TestAScriptCheckRunsInItsTask(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.driver.onExec = func(_ context.Context, command []string) (int, error) {
			if fmt.Sprint(command) != "[/bin/alive web]" {
				t.Errorf("ran %q", command)
			}
			return 1, nil
		}
		a := rolledOut("task_states", &model.ServiceCheck{Name: "${NOMAD_TASK_NAME}!", Type: "script", TaskName: "web", Command: "/bin/alive", Args: []string{"${NOMAD_TASK_NAME}"}, Interval: time.Second, Timeout: time.Second})
		b.run(a)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := b.r.CheckResults(); len(got) != 1 || got[0].Status != checks.Warning || got[0].Name != "web!" || got[0].Task != "web" {
			t.Errorf("%+v", got)
		}
	})
}

var _ checks.Owner = (*alloc.Runner)(nil)

func TestServicesOfWhichACheckFailsAreReported(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		var answer atomic.Pointer[checks.Outcome]
		answer.Store(&passes)
		b.checkWith(func(checks.Target) checks.Outcome { return *answer.Load() })
		var published atomic.Pointer[model.Allocation]
		b.cfg.Publish = published.Store
		b.run(rolledOut("task_states", &model.ServiceCheck{Type: "tcp", Interval: 5 * time.Second, Timeout: time.Second, OnUpdate: "ignore"}))
		is := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			if got := published.Load().NetworkStatus.Failing; !slices.Equal(got, want) {
				t.Errorf("%s: reported are %q, want %q", when, got, want)
			}
		}
		time.Sleep(2 * time.Second)
		is("when it passes")
		answer.Store(&fails)
		time.Sleep(5 * time.Second)
		is("when it fails", "/http/http")
		answer.Store(&checks.Outcome{Status: checks.Warning})
		time.Sleep(5 * time.Second)
		is("when it warns")
	})
}

func TestAServiceWithoutAnAddressIsToldOnce(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := rolledOut("task_states", &model.ServiceCheck{Type: "tcp", Interval: 5 * time.Second, Timeout: time.Second})
		a.Job.TaskGroups[0].Services = append(a.Job.TaskGroups[0].Services, &model.Service{Name: "inside", Provider: "nomad", PortLabel: "http", AddressMode: "alloc"})
		a.DesiredStatus = model.AllocDesiredStatusRun
		b.checkWith(func(checks.Target) checks.Outcome { return passes })
		b.run(a)
		time.Sleep(time.Minute)
		synctest.Wait()
		var told []string
		for _, e := range b.r.View().TaskStates["web"].Events {
			if e.Type == model.TaskHookMessage {
				told = append(told, e.DisplayMessage)
			}
		}
		if len(told) != 1 || !strings.Contains(told[0], `service "inside"`) || !strings.Contains(told[0], "address_mode is alloc") {
			t.Errorf("the task's events tell %q", told)
		}
	})
}
