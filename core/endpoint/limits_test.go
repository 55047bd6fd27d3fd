// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/model"
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
