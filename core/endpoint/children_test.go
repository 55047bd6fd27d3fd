// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func hook(t *testing.T, block string) *server {
	t.Helper()
	s := newServer(t)
	s.register(draft("hook", "batch", `"Priority":30,"Meta":{"why":"because"},"ParameterizedJob":`+block+`,`))
	return s
}

func (s *server) dispatch(edit func(*api.JobDispatchRequest)) (*api.JobDispatchResponse, error) {
	req := &api.JobDispatchRequest{Namespace: "default", JobID: "hook"}
	if edit != nil {
		edit(req)
	}
	return s.DispatchJob(s.ctx, req)
}

func TestADispatchAnswersWithItsChildAndEvaluation(t *testing.T) {
	s := hook(t, `{"MetaOptional":["who"]}`)
	r, err := s.dispatch(func(r *api.JobDispatchRequest) {
		r.Payload, r.Meta, r.Priority = []byte("p"), map[string]string{"who": "me"}, 80
	})
	if err != nil {
		t.Fatal(err)
	}
	child, eval := s.state().JobByID("default", r.DispatchedJobID), s.state().EvalByID(r.EvalID)
	if child == nil || eval == nil || eval.JobID != child.ID || eval.Priority != 80 || r.JobCreateIndex != child.CreateIndex || r.Index != r.EvalCreateIndex {
		t.Fatalf("child %+v, eval %+v, answer %+v", child, eval, r)
	}
	if !strings.HasPrefix(child.ID, "hook/dispatch-1795262400-") || len(child.ID) != len("hook/dispatch-1795262400-")+8 {
		t.Errorf("its id is %q", child.ID)
	}
	if child.Meta["who"] != "me" || child.Meta["why"] != "because" || string(child.Payload) != "p" || child.Priority != 80 {
		t.Errorf("the child is %+v", child)
	}
	if got := *s.state().JobSummary("default", "hook").Children; got != (model.JobChildrenSummary{Pending: 1}) {
		t.Errorf("children are %+v", got)
	}
	r, err = s.dispatch(func(r *api.JobDispatchRequest) { r.IdPrefixTemplate = "nightly.v2" })
	if err != nil || !strings.HasPrefix(r.DispatchedJobID, "hook/dispatch-nightly.v2-1795262400-") {
		t.Errorf("with a prefix: %+v, %v", r, err)
	}
	if eval := s.state().EvalByID(r.EvalID); eval.Priority != 30 {
		t.Errorf("without a priority of its own the eval has %d", eval.Priority)
	}
}

func TestDispatchesThatBreakTheContractOfTheJobAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		block string
		edit  func(*api.JobDispatchRequest)
		want  string
	}{
		"payload required":  {`{"Payload":"required"}`, nil, "Payload is not provided but required by parameterized job"},
		"payload forbidden": {`{"Payload":"forbidden"}`, func(r *api.JobDispatchRequest) { r.Payload = []byte("x") }, "Payload provided but forbidden by parameterized job"},
		"payload too large": {`{}`, func(r *api.JobDispatchRequest) { r.Payload = make([]byte, 16<<10+1) }, "Payload exceeds maximum size; 16385 > 16384"},
		"meta missing":      {`{"MetaRequired":["a","b"]}`, func(r *api.JobDispatchRequest) { r.Meta = map[string]string{"b": ""} }, "Dispatch did not provide required meta keys: [a]"},
		"meta unknown":      {`{"MetaOptional":["a"]}`, func(r *api.JobDispatchRequest) { r.Meta = map[string]string{"z": "", "y": "", "a": ""} }, "Dispatch request included unpermitted metadata keys: [y z]"},
		"meta of the job":   {`{}`, func(r *api.JobDispatchRequest) { r.Meta = map[string]string{"why": "not"} }, "unpermitted metadata keys: [why]"},
		"meta too large":    {`{"MetaOptional":["a"]}`, func(r *api.JobDispatchRequest) { r.Meta = map[string]string{"a": strings.Repeat("x", 64<<10)} }, "Dispatch metadata exceeds maximum size"},
		"prefix":            {`{}`, func(r *api.JobDispatchRequest) { r.IdPrefixTemplate = "a/b" }, "id prefix template"},
		"priority":          {`{}`, func(r *api.JobDispatchRequest) { r.Priority = -1 }, "dispatch priority"},
		"token":             {`{}`, func(r *api.JobDispatchRequest) { r.IdempotencyToken = strings.Repeat("x", 257) }, "idempotency token"},
	} {
		s := hook(t, c.block)
		if _, err := s.dispatch(c.edit); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if n := len(s.state().JobChildren("default", "hook")); n != 0 {
			t.Errorf("%s: %d children", name, n)
		}
	}
}

func TestAPayloadOfTheGreatestSizeIsTaken(t *testing.T) {
	s := hook(t, `{"Payload":"required"}`)
	if _, err := s.dispatch(func(r *api.JobDispatchRequest) { r.Payload = make([]byte, 16<<10) }); err != nil {
		t.Fatal(err)
	}
}

func TestOneTokenMakesOneChildHoweverManyAskAtOnce(t *testing.T) {
	s := hook(t, `{}`)
	var wg sync.WaitGroup
	answers := make([]*api.JobDispatchResponse, 32)
	for i := range answers {
		wg.Go(func() {
			r, err := s.dispatch(func(r *api.JobDispatchRequest) { r.IdempotencyToken = "token" })
			if err != nil {
				t.Error(err)
				return
			}
			answers[i] = r
		})
	}
	wg.Wait()
	if n := len(s.state().JobChildren("default", "hook")); n != 1 {
		t.Fatalf("%d children", n)
	}
	for _, r := range answers {
		if r == nil || r.DispatchedJobID != answers[0].DispatchedJobID || r.EvalID != answers[0].EvalID || r.JobCreateIndex != answers[0].JobCreateIndex {
			t.Fatalf("answers differ: %+v and %+v", r, answers[0])
		}
	}
}

func TestWhatCannotBeDispatchedOrForcedSaysWhy(t *testing.T) {
	s := hook(t, `{}`)
	s.register(draft("plain", "batch", ""))
	s.register(draft("off", "batch", `"Periodic":{"Enabled":false,"Spec":"@daily"},`))
	s.register(draft("cron", "batch", `"Periodic":{"Spec":"@daily"},`))
	for id, want := range map[string]string{"nope": "parameterized job not found", "plain": `Specified job "plain" is not a parameterized job`} {
		if _, err := s.DispatchJob(s.ctx, &api.JobDispatchRequest{Namespace: "default", JobID: id}); err == nil || err.Error() != want {
			t.Errorf("dispatch of %s: %v", id, err)
		}
	}
	for id, want := range map[string]string{"nope": "job not found", "plain": "can't force launch non-periodic job", "off": "not enabled"} {
		if _, err := s.ForcePeriodic(s.ctx, "default", id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("force of %s: %v", id, err)
		}
	}
	for _, id := range []string{"hook", "cron"} {
		if _, err := s.DeregisterJob(s.ctx, &api.JobDeregisterRequest{Namespace: "default", JobID: id}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.dispatch(nil); err == nil || err.Error() != `Specified job "hook" is stopped` {
		t.Errorf("dispatch of a stopped job: %v", err)
	}
	if _, err := s.ForcePeriodic(s.ctx, "default", "cron"); err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("force of a stopped job: %v", err)
	}
}

func TestAForcedLaunchIsAChildOfThisSecond(t *testing.T) {
	s := newServer(t)
	s.register(draft("cron", "batch", `"Periodic":{"Spec":"@daily","ProhibitOverlap":true},`))
	for range 2 { // within one second: one child that is looked at twice
		r, err := s.ForcePeriodic(s.ctx, "default", "cron")
		if err != nil {
			t.Fatal(err)
		}
		if e := s.state().EvalByID(r.EvalID); e == nil || e.JobID != "cron/periodic-1795262400" || e.TriggeredBy != model.EvalTriggerPeriodicJob {
			t.Errorf("the eval is %+v", e)
		}
	}
	if n := len(s.state().JobChildren("default", "cron")); n != 1 {
		t.Errorf("%d children", n)
	}
	if l := s.state().PeriodicLaunch("default", "cron"); l == nil || l.Launch != now.UnixNano() {
		t.Errorf("the launch is %+v", l)
	}
}

func TestAJobThatIsBothMakesChildrenThatArePeriodic(t *testing.T) {
	s := newServer(t)
	s.register(draft("hook", "batch", `"Periodic":{"Spec":"@daily"},"ParameterizedJob":{},`))
	r, err := s.dispatch(nil)
	if err != nil || r.EvalID != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	child := s.state().JobByID("default", r.DispatchedJobID)
	if !child.IsPeriodicActive() || child.IsParameterized() {
		t.Errorf("the child is %+v", child)
	}
}
