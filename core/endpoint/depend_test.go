// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/propose"
)

func dependsOn(name, condition string) string {
	return fmt.Sprintf(`"DependsOn":[{"Name":%q,"Condition":%q,"Timeout":60000000000}],`, name, condition)
}

func TestJobsThatDependOnEachOtherAreRefusedAndOthersWaitInWords(t *testing.T) {
	s := newServer(t)
	for _, c := range []fsm.Command{&fsm.BeginTerm{ClusterID: "c", TermID: "t"}, &fsm.RaiseLevel{Level: fsm.Level}} {
		if _, err := propose.Commands(s.ctx, s.Raft, c); err != nil {
			t.Fatal(err)
		}
	}
	if r := s.register(draft("a", "batch", dependsOn("b", "complete"))); !strings.Contains(r.Warnings, `there is no job "b" in namespace "default" yet`) {
		t.Errorf("warnings: %s", r.Warnings)
	}
	s.register(draft("daily", "batch", `"Periodic":{"Spec":"@daily"},`))
	for want, job := range map[string]string{
		"b -> a -> b":                  dependsOn("a", "started"),
		`job "daily" is a template`:    dependsOn("daily", "complete"),
		`condition "up" of job "a" is`: dependsOn("a", "up"),
	} {
		body := draft("b", "batch", job)
		v, err := s.ValidateJob(s.ctx, &api.JobValidateRequest{Job: body})
		if err != nil || !strings.Contains(v.Error, want) {
			t.Errorf("validate: %+v, %v, want %q", v, err, want)
		}
		if _, err := s.PlanJob(s.ctx, &api.JobPlanRequest{Job: body}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("plan: %v, want %q", err, want)
		}
		if _, err := s.RegisterJob(s.ctx, &api.JobRegisterRequest{Job: body}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("register: %v, want %q", err, want)
		}
	}
	p, err := s.PlanJob(s.ctx, &api.JobPlanRequest{Job: draft("c", "batch", dependsOn("a", "complete"))})
	if err != nil || p.Held["g"] == nil || len(p.FailedTGAllocs) > 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	if got, want := p.Held["g"].Say(now), `waits for job "a" to be complete: 0 of 1 allocs are; limit in 1m0s`; got != want {
		t.Errorf("the plan says %q, want %q", got, want)
	}
}
