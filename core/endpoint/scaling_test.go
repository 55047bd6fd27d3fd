// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// scalable is a job with a scaling policy from 1 to 3.
func scalable(id, kind string, count int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"ID":%q,"Name":%q,"Type":%q,"Datacenters":["*"],
		"TaskGroups":[{"Name":"g","Count":%d,"Scaling":{"Min":1,"Max":3,"Enabled":true},
		"Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"/bin/true"}}]}]}`, id, id, kind, count))
}

func (s *server) scale(id string, count *int64, edit ...func(*api.JobScaleRequest)) (*api.JobRegisterResponse, error) {
	req := &api.JobScaleRequest{Namespace: "default", JobID: id, Count: count, Target: map[string]string{"Group": "g"},
		Message: "more", Meta: map[string]any{"by": "me"}}
	for _, f := range edit {
		f(req)
	}
	return s.ScaleJob(s.ctx, req)
}

func TestScalingsThatHappenedAreKeptWithTheirMeta(t *testing.T) {
	s := newServer(t)
	s.register(scalable("a", "service", 1))
	two, nine, none, less := int64(2), int64(9), int64(0), int64(-1)
	r, err := s.scale("a", &two)
	if err != nil {
		t.Fatal(err)
	}
	refused := map[string]func() error{
		"group count was greater than scaling policy maximum: 9 > 3": func() error { _, err := s.scale("a", &nine); return err },
		"group count was less than scaling policy minimum: 0 < 1":    func() error { _, err := s.scale("a", &none); return err },
		"scaling action count can't be negative":                     func() error { _, err := s.scale("a", &less); return err },
		"should not contain count": func() error {
			_, err := s.scale("a", &two, func(r *api.JobScaleRequest) { r.Error = true })
			return err
		},
		"Enforcing job modify index 1": func() error {
			_, err := s.scale("a", &two, func(r *api.JobScaleRequest) { r.EnforceIndex, r.JobModifyIndex = true, 1 })
			return err
		},
	}
	for want, call := range refused {
		if err := call(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := s.scale("a", nil, func(r *api.JobScaleRequest) { r.Error, r.Message = true, "no luck" }); err != nil {
		t.Fatal(err)
	}
	events := s.state().ScalingEvents("default", "a")["g"]
	if len(events) != 2 {
		t.Fatalf("%d events are kept, want the scaling and the message", len(events))
	}
	message, scaled := events[0], events[1]
	if scaled.Count == nil || *scaled.Count != 2 || scaled.PreviousCount != 1 || scaled.Meta["by"] != "me" || scaled.Message != "more" ||
		scaled.EvalID == nil || *scaled.EvalID != r.EvalID || scaled.Time == 0 || scaled.CreateIndex == 0 {
		t.Errorf("the scaling is kept as %+v", scaled)
	}
	if message.Count != nil || !message.Error || message.Message != "no luck" || message.PreviousCount != 2 || message.EvalID != nil {
		t.Errorf("the message is kept as %+v", message)
	}
	s.register(scalable("a", "service", 3))
	if got := s.state().ScalingEvents("default", "a")["g"]; len(got) != 2 {
		t.Errorf("after another version %d events are kept", len(got))
	}
	if _, err := s.DeregisterJob(s.ctx, &api.JobDeregisterRequest{Namespace: "default", JobID: "a", Purge: true}); err != nil {
		t.Fatal(err)
	}
	s.register(scalable("a", "service", 1))
	if got := s.state().ScalingEvents("default", "a"); len(got) != 0 {
		t.Errorf("events of the purged job are kept: %v", got)
	}
}

func TestScalingPoliciesOfTasksKeepTheirIDsByType(t *testing.T) {
	s := newServer(t)
	register := func(policies string) map[string]string {
		s.register(json.RawMessage(strings.Replace(string(scalable("a", "service", 1)), `"Name":"t",`, `"Name":"t","ScalingPolicies":[`+policies+`],`, 1)))
		ids := map[string]string{}
		for _, p := range s.state().JobByID("default", "a").TaskGroups[0].Tasks[0].ScalingPolicies {
			ids[p.Type] = p.ID
		}
		return ids
	}
	first := register(`{"Type":"vertical_cpu","Max":500}`)
	second := register(`{"Type":"vertical_mem","Max":512},{"Type":"vertical_cpu","Max":600}`)
	if first["vertical_cpu"] == "" || second["vertical_cpu"] != first["vertical_cpu"] || second["vertical_mem"] == "" || second["vertical_mem"] == first["vertical_cpu"] {
		t.Errorf("first %v, then %v", first, second)
	}
}

func TestOfAGroupsEventsTheNewestAreKept(t *testing.T) {
	s := newServer(t)
	s.register(scalable("a", "service", 1))
	for i := range 25 {
		if _, err := s.scale("a", nil, func(r *api.JobScaleRequest) { r.Message = fmt.Sprint(i) }); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.state().ScalingEvents("default", "a")["g"]; len(got) != 20 || got[0].Message != "24" || got[19].Message != "5" {
		t.Errorf("%d events, from %s to %s", len(got), got[0].Message, got[len(got)-1].Message)
	}
}

func TestAGroupOfASystemJobScalesBetween0And1(t *testing.T) {
	s := newServer(t)
	s.register(draft("a", "system", ""))
	for _, count := range []int64{0, 1} {
		if _, err := s.scale("a", &count); err != nil || s.state().JobByID("default", "a").TaskGroups[0].Count != int(count) {
			t.Errorf("to %d: %v", count, err)
		}
	}
	two := int64(2)
	if _, err := s.scale("a", &two); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "can only be scaled between 0 and 1") {
		t.Errorf("to 2: %v", err)
	}
}

func TestARegistrationKeepsTheCountsAndResourcesThatItAsksToKeep(t *testing.T) {
	job := func(count, cpu int) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"ID":"a","Name":"a","Type":"service","Datacenters":["*"],"TaskGroups":[{"Name":"g","Count":%d,
			"Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"/bin/true"},"Resources":{"CPU":%d,"MemoryMB":64}}]}]}`, count, cpu))
	}
	for _, c := range []struct {
		req        api.JobRegisterRequest
		count, cpu int
	}{
		{api.JobRegisterRequest{}, 5, 500},
		{api.JobRegisterRequest{PreserveCounts: true}, 2, 500},
		{api.JobRegisterRequest{PreserveResources: true}, 5, 100},
		{api.JobRegisterRequest{PreserveCounts: true, PreserveResources: true}, 2, 100},
	} {
		s := newServer(t)
		s.register(job(1, 100))
		two := int64(2)
		if _, err := s.scale("a", &two); err != nil {
			t.Fatal(err)
		}
		c.req.Job = job(5, 500)
		if _, err := s.RegisterJob(s.ctx, &c.req); err != nil {
			t.Fatal(err)
		}
		tg := s.state().JobByID(model.DefaultNamespace, "a").TaskGroups[0]
		if r := tg.Tasks[0].Resources; tg.Count != c.count || r.CPU != c.cpu {
			t.Errorf("counts %v, resources %v: count %d, cpu %d", c.req.PreserveCounts, c.req.PreserveResources, tg.Count, r.CPU)
		}
	}
}

func TestATargetThatIsNoGroupOfTheJobIsNotScaled(t *testing.T) {
	s := newServer(t)
	s.register(draft("a", "service", ""))
	two := int64(2)
	for _, c := range []struct {
		target map[string]string
		want   string
	}{
		{map[string]string{"Namespace": "default", "Job": "a", "Group": "g"}, ""},
		{map[string]string{"Group": "g", "Job": "b"}, `the target's job is "b", and the request is for job "a" in namespace "default"`},
		{map[string]string{"Group": "g", "Namespace": "b"}, `the target's namespace is "b"`},
		{map[string]string{"Group": "g", "Task": "t"}, `the target names task "t"; only the count of a group can be scaled`},
	} {
		_, err := s.ScaleJob(s.ctx, &api.JobScaleRequest{Namespace: "default", JobID: "a", Count: &two, Target: c.target})
		if c.want == "" && err != nil || c.want != "" && (!errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: got %v", c.target, err)
		}
	}
}
