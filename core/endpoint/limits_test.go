// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestOperatorsSayWhatPrioritiesJobsMayHave(t *testing.T) {
	s := newServer(t)
	s.Jobs = endpoint.JobLimits{DefaultPriority: 60, MaxPriority: 500}
	s.register(draft("a", "batch", `"ParameterizedJob":{},`))
	s.register(draft("b", "batch", `"Priority":500,`))
	if a, b := s.state().JobByID("default", "a").Priority, s.state().JobByID("default", "b").Priority; a != 60 || b != 500 {
		t.Errorf("priorities are %d and %d", a, b)
	}
	if _, err := s.RegisterJob(s.ctx, &api.JobRegisterRequest{Job: draft("c", "batch", `"Priority":501,`)}); err == nil || !strings.Contains(err.Error(), "Job priority must be between [1, 500]") {
		t.Errorf("got %v", err)
	}
	for priority, ok := range map[int]bool{500: true, 501: false} {
		_, err := s.DispatchJob(s.ctx, &api.JobDispatchRequest{Namespace: "default", JobID: "a", Priority: priority})
		if (err == nil) != ok {
			t.Errorf("a dispatch with priority %d: %v", priority, err)
		}
	}
}

func TestThePriorityOfAnEvaluationIsOneThatJobsMayHave(t *testing.T) {
	s := newServer(t)
	s.Jobs.MaxPriority = 200
	s.register(draft("a", "service", ""))
	for priority, ok := range map[int]bool{-1: false, 0: true, 1: true, 200: true, 201: false} {
		r, err := s.RegisterJob(s.ctx, &api.JobRegisterRequest{Job: draft("a", "service", ""), EvalPriority: priority})
		if (err == nil) != ok || !ok && !strings.Contains(err.Error(), "Eval priority must be between 1 and 200 inclusively") {
			t.Errorf("a registration with %d: %v", priority, err)
		}
		if want := max(priority, 50*(1-min(priority, 1))); ok && s.state().EvalByID(r.EvalID).Priority != want {
			t.Errorf("the evaluation has priority %d instead of %d", s.state().EvalByID(r.EvalID).Priority, want)
		}
		if _, err := s.DeregisterJob(s.ctx, &api.JobDeregisterRequest{Namespace: "default", JobID: "a", EvalPriority: priority}); (err == nil) != ok {
			t.Errorf("a stop with %d: %v", priority, err)
		}
	}
}

func TestOperatorsSayHowManyAllocsAJobMayAskFor(t *testing.T) {
	s := newServer(t)
	s.Jobs.MaxCount = 1
	s.register(draft("a", "service", ""))
	two := int64(2)
	_, err := s.ScaleJob(s.ctx, &api.JobScaleRequest{Namespace: "default", JobID: "a", Count: &two, Target: map[string]string{"Group": "g"}})
	if err == nil || !strings.Contains(err.Error(), "total count was greater than configured job_max_count: 2 > 1") {
		t.Errorf("got %v", err)
	}
}

func TestOperatorsSayHowLargeJobFilesAreKept(t *testing.T) {
	s := newServer(t)
	s.Jobs.MaxSource = 10
	for source, kept := range map[string]bool{"0123456789": true, "0123456789a": false} {
		r, err := s.RegisterJob(s.ctx, &api.JobRegisterRequest{Job: draft("a"+source, "batch", ""), Submission: &model.JobSubmission{Source: source}})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.state().JobSubmission("default", "a"+source, 0) != nil; got != kept || strings.Contains(r.Warnings, "job source size") == kept {
			t.Errorf("%d bytes are kept: %v, warnings %q", len(source), got, r.Warnings)
		}
	}
}

func TestWhatOperatorsWriteApartFromJobsHasBounds(t *testing.T) {
	s := newServer(t)
	s.register(draft("a", "service", ""))
	node := &model.Node{ID: "11111111-2222-3333-4444-555555555555", SecretID: "s", Status: model.NodeStatusReady}
	s.propose(&fsm.RegisterNode{Node: node})
	one := int64(1)
	scale := func(message string, meta map[string]any) error {
		_, err := s.ScaleJob(s.ctx, &api.JobScaleRequest{Namespace: "default", JobID: "a", Count: &one, Target: map[string]string{"Group": "g"}, Message: message, Meta: meta})
		return err
	}
	for name, write := range map[string]func(text string) error{
		"the message of a scaling": func(text string) error { return scale(text, nil) },
		"the meta of a scaling":    func(text string) error { return scale("", map[string]any{"a": []any{map[string]any{"b": text}}}) },
		"a tag": func(text string) error {
			_, err := s.TagJobVersion(s.ctx, &api.JobTagRequest{Namespace: "default", JobID: "a", Name: "t", Description: text})
			return err
		},
		"a namespace": func(text string) error {
			_, err := s.UpsertNamespace(s.ctx, &model.Namespace{Name: "n", Meta: map[string]string{"a": text}})
			return err
		},
		"a node pool": func(text string) error {
			_, err := s.UpsertNodePool(s.ctx, &model.NodePool{Name: "p", Description: text})
			return err
		},
		"a drain": func(text string) error {
			_, err := s.DrainNode(s.ctx, &api.NodeDrainRequest{NodeID: node.ID, Meta: map[string]string{"a": text}})
			return err
		},
	} {
		if err := write(strings.Repeat("x", 60_000)); err != nil {
			t.Errorf("%s of 60 kB: %v", name, err)
		}
		before := s.state().Index()
		if err := write(strings.Repeat("x", 7_000_000)); !errdefs.IsInvalidArgument(err) || len(err.Error()) > 1000 {
			t.Errorf("%s of 7 MB: %.1000v", name, err)
		}
		if s.state().Index() != before {
			t.Errorf("%s of 7 MB was written", name)
		}
	}
}
