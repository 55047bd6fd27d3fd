// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func (s *server) namespace(ns *model.Namespace) {
	s.t.Helper()
	if _, err := s.UpsertNamespace(s.ctx, ns); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) pool(name string) {
	s.t.Helper()
	if _, err := s.UpsertNodePool(s.ctx, &model.NodePool{Name: name}); err != nil {
		s.t.Fatal(err)
	}
}

// refusedFor returns why a job is refused, "" if it is not. Plan says the same.
func (s *server) refusedFor(job json.RawMessage) string {
	s.t.Helper()
	_, planErr := s.PlanJob(s.ctx, &api.JobPlanRequest{Job: job})
	_, err := s.RegisterJob(s.ctx, &api.JobRegisterRequest{Job: job})
	if (err == nil) != (planErr == nil) {
		s.t.Fatalf("registration says %v, plan %v", err, planErr)
	}
	if err == nil {
		return ""
	}
	if !errdefs.IsInvalidArgument(err) || err.Error() != planErr.Error() {
		s.t.Fatalf("registration says %v, plan %v", err, planErr)
	}
	return err.Error()
}

func TestANamespaceRefusesDriversThatItDoesNotAllow(t *testing.T) {
	s := newServer(t)
	const refused = `used task driver "raw_exec" is not allowed in namespace "dev"`
	for name, c := range map[string]struct {
		rules model.NamespaceCapabilities
		want  string
	}{
		"none":             {},
		"others enabled":   {model.NamespaceCapabilities{EnabledTaskDrivers: []string{"docker", "exec"}}, refused},
		"enabled":          {rules: model.NamespaceCapabilities{EnabledTaskDrivers: []string{"raw_exec"}}},
		"disabled":         {model.NamespaceCapabilities{DisabledTaskDrivers: []string{"raw_exec"}}, refused},
		"both":             {model.NamespaceCapabilities{EnabledTaskDrivers: []string{"raw_exec"}, DisabledTaskDrivers: []string{"raw_exec"}}, refused},
		"another disabled": {rules: model.NamespaceCapabilities{DisabledTaskDrivers: []string{"docker"}}},
	} {
		s.namespace(&model.Namespace{Name: "dev", Capabilities: &c.rules})
		if got := s.refusedFor(draft("a", "batch", `"Namespace":"dev",`)); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
	if got := s.refusedFor(draft("a", "batch", "")); got != "" {
		t.Errorf("another namespace's rule counts: %s", got)
	}
}

func TestANamespaceRefusesNetworkModesThatItDoesNotAllow(t *testing.T) {
	s := newServer(t)
	job := func(network string) json.RawMessage {
		return json.RawMessage(strings.Replace(string(draft("a", "batch", `"Namespace":"dev",`)), `"Count":1`, `"Count":1,"Networks":[`+network+`]`, 1))
	}
	s.namespace(&model.Namespace{Name: "dev", Capabilities: &model.NamespaceCapabilities{EnabledNetworkModes: []string{"bridge", "host"}, DisabledNetworkModes: []string{"host"}}})
	for network, want := range map[string]string{
		`{}`:                 `used group network mode "host" is not allowed in namespace "dev"`,
		`{"Mode":"host"}`:    `used group network mode "host" is not allowed in namespace "dev"`,
		`{"Mode":"cni/mac"}`: `used group network mode "cni/mac" is not allowed in namespace "dev"`,
	} {
		if got := s.refusedFor(job(network)); got != want {
			t.Errorf("%s: %q, not %q", network, got, want)
		}
	}
	if got := s.refusedFor(job("")); got != "" {
		t.Errorf("a job without a network block is refused: %s", got)
	}
}

func TestANamespaceGivesItsNodePoolAndRefusesOthers(t *testing.T) {
	s := newServer(t)
	for _, name := range []string{"gpu-a", "gpu-b", "web"} {
		s.pool(name)
	}
	const job = `"Namespace":"dev",`
	for name, c := range map[string]struct {
		rules *model.NamespaceNodePoolConfiguration
		pools map[string]bool
	}{
		"no rule":       {nil, map[string]bool{"default": true, "web": true, "gpu-a": true, "all": true}},
		"allowed":       {&model.NamespaceNodePoolConfiguration{Default: "web", Allowed: []string{"gpu-*"}}, map[string]bool{"web": true, "gpu-a": true, "gpu-b": true, "default": false, "all": false}},
		"none allowed":  {&model.NamespaceNodePoolConfiguration{Default: "web", Allowed: []string{}}, map[string]bool{"web": true, "gpu-a": false, "default": false}},
		"denied":        {&model.NamespaceNodePoolConfiguration{Denied: []string{"*-b", "all"}}, map[string]bool{"default": true, "web": true, "gpu-a": true, "gpu-b": false, "all": false}},
		"only the own":  {&model.NamespaceNodePoolConfiguration{Default: "gpu-a", Denied: []string{"*"}}, map[string]bool{"gpu-a": true, "default": false, "web": false}},
		"nothing in it": {&model.NamespaceNodePoolConfiguration{}, map[string]bool{"default": true, "web": true}},
	} {
		s.namespace(&model.Namespace{Name: "dev", NodePoolConfiguration: c.rules})
		for pool, ok := range c.pools {
			want := ""
			if !ok {
				want = `namespace "dev" does not allow jobs to use node pool "` + pool + `"`
			}
			if got := s.refusedFor(draft("a", "batch", job+`"NodePool":"`+pool+`",`)); got != want {
				t.Errorf("%s, pool %s: %q, not %q", name, pool, got, want)
			}
		}
		want := "default"
		if c.rules != nil && c.rules.Default != "" {
			want = c.rules.Default
		}
		for _, none := range []string{"", `"NodePool":"",`} {
			s.register(draft("b", "batch", job+none))
			if got := s.state().JobByID("dev", "b").NodePool; got != want {
				t.Errorf("%s: a job without a pool gets %q, not %q", name, got, want)
			}
		}
	}
}

func TestARevertIsRefusedByTheRulesOfTheNamespace(t *testing.T) {
	s := newServer(t)
	s.register(draft("a", "batch", ""))
	s.register(draft("a", "batch", `"Priority":60,`))
	s.namespace(&model.Namespace{Name: "default", Capabilities: &model.NamespaceCapabilities{DisabledTaskDrivers: []string{"raw_exec"}}})
	_, err := s.RevertJob(s.ctx, &api.JobRevertRequest{Namespace: "default", JobID: "a"})
	if !errdefs.IsInvalidArgument(err) {
		t.Fatalf("the revert says %v", err)
	}
	if got := s.refusedFor(draft("a", "batch", `"Stop":true,`)); got != "" {
		t.Errorf("a job that is to stop is refused: %s", got)
	}
}

func TestRulesOfNodePoolsThatContradictThemselvesAreRefused(t *testing.T) {
	s := newServer(t)
	for _, c := range []*model.NamespaceNodePoolConfiguration{
		{Allowed: []string{"a"}, Denied: []string{"b"}}, {Default: "gpu-*"},
	} {
		if _, err := s.UpsertNamespace(s.ctx, &model.Namespace{Name: "dev", NodePoolConfiguration: c}); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestRegistrationsAreRefusedWhileTheyAreSwitchedOff(t *testing.T) {
	s := newServer(t)
	s.register(draft("a", "service", ""))
	s.register(draft("a", "service", `"Priority":60,`))
	s.register(draft("hook", "batch", `"ParameterizedJob":{},`))
	set := func(reject bool) {
		if _, _, err := s.SetSchedulerConfig(s.ctx, &model.SchedulerConfiguration{RejectJobRegistration: reject}, nil); err != nil {
			t.Fatal(err)
		}
	}
	two := int64(2)
	calls := map[string]func() error{
		"register": func() error {
			_, err := s.RegisterJob(s.ctx, &api.JobRegisterRequest{Job: draft("b", "batch", "")})
			return err
		},
		"scale": func() error {
			_, err := s.ScaleJob(s.ctx, &api.JobScaleRequest{Namespace: "default", JobID: "a", Count: &two, Target: map[string]string{"Group": "g"}})
			return err
		},
		"revert": func() error {
			_, err := s.RevertJob(s.ctx, &api.JobRevertRequest{Namespace: "default", JobID: "a"})
			return err
		},
		"dispatch": func() error {
			_, err := s.DispatchJob(s.ctx, &api.JobDispatchRequest{Namespace: "default", JobID: "hook"})
			return err
		},
	}
	set(true)
	for name, call := range calls {
		if err := call(); !errdefs.IsPermissionDenied(err) || !strings.HasPrefix(err.Error(), "Permission denied") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.DeregisterJob(s.ctx, &api.JobDeregisterRequest{Namespace: "default", JobID: "a"}); err != nil {
		t.Errorf("a job cannot be stopped: %v", err)
	}
	set(false)
	for name, call := range calls {
		if err := call(); errdefs.IsPermissionDenied(err) {
			t.Errorf("%s, switched on again: %v", name, err)
		}
	}
}

func TestARevertToAVersionWhoseDeploymentHasFailedWarns(t *testing.T) {
	s := newServer(t)
	revert := func(version uint64) string {
		t.Helper()
		out, err := s.RevertJob(s.ctx, &api.JobRevertRequest{Namespace: "default", JobID: "a", JobVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		return out.Warnings
	}
	s.register(draft("a", "service", ""))
	s.register(draft("a", "service", `"Meta":{"v":"1"},`))
	job := s.state().JobByID("default", "a")
	d := &model.Deployment{
		ID: "dddddddd-0000-0000-0000-000000000000", Namespace: "default", JobID: "a", JobVersion: job.Version, JobCreateIndex: job.CreateIndex, JobModifyIndex: job.JobModifyIndex,
		Status: model.DeploymentStatusRunning, TaskGroups: map[string]*model.DeploymentState{},
	}
	s.propose(&fsm.ApplyPlan{Plan: &model.Plan{Deployment: d}})
	s.propose(&fsm.UpdateDeploymentStatus{Update: &model.DeploymentStatusUpdate{DeploymentID: d.ID, Status: model.DeploymentStatusFailed, StatusDescription: "Failed due to progress deadline"}})
	if got := revert(0); got != "" {
		t.Errorf("of version 0 nothing bad is known: %s", got)
	}
	if got := revert(1); !strings.Contains(got, "version 1 is not stable: its deployment dddddddd has failed (Failed due to progress deadline)") {
		t.Errorf("warnings: %q", got)
	}
}

func TestAPromotionOfWhatHasNoCanariesIsRefused(t *testing.T) {
	s := newServer(t)
	s.register(draft("a", "service", ""))
	job := s.state().JobByID("default", "a")
	d := &model.Deployment{
		ID: "dddddddd-0000-0000-0000-000000000000", Namespace: "default", JobID: "a", JobVersion: job.Version, JobCreateIndex: job.CreateIndex, JobModifyIndex: job.JobModifyIndex,
		Status: model.DeploymentStatusRunning, TaskGroups: map[string]*model.DeploymentState{"g": {DesiredTotal: 1, ProgressDeadline: time.Minute}},
	}
	s.propose(&fsm.ApplyPlan{Plan: &model.Plan{Deployment: d}})
	for want, req := range map[string]api.DeploymentPromoteRequest{
		"no canaries to promote: deployment " + d.ID + " has none":                   {DeploymentID: d.ID, All: true},
		`no canaries to promote: task group "g" of deployment ` + d.ID + " has none": {DeploymentID: d.ID, Groups: []string{"g"}},
		`has no group "other"`: {DeploymentID: d.ID, Groups: []string{"other"}},
	} {
		if _, err := s.PromoteDeployment(s.ctx, &req); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
	if g := s.state().DeploymentByID(d.ID).TaskGroups["g"]; g.Promoted || !g.RequireProgressBy.IsZero() {
		t.Errorf("a promotion that was refused changed the group: %+v", g)
	}
}
