// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/internal/testkit/lifecycles"
	"github.com/drover-project/drover/sdk/errdefs"
)

// raft applies commands at once, in order, as a server alone in its cluster does.
type raft struct {
	mu  sync.Mutex
	fsm *fsm.FSM
}

func (r *raft) Propose(_ context.Context, data []byte) (uint64, any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	index := r.fsm.Store().View().Index() + 1
	answer := r.fsm.ApplyBatch([]fsm.Entry{{Index: index, Data: data}})[0]
	if err, ok := answer.(error); ok {
		return index, nil, err
	}
	return index, answer, nil
}
func (*raft) VerifyLeader(context.Context) error { return nil }
func (*raft) HasLeader() bool                    { return true }
func (*raft) LastContact() time.Duration         { return 0 }

// server is an endpoint over a state of its own, with a clock that stands still.
type server struct {
	*endpoint.Endpoint
	t   *testing.T
	ctx context.Context
}

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newServer(t *testing.T) *server {
	t.Helper()
	return newServerOf(t, "global")
}

func newServerOf(t *testing.T, region string) *server {
	t.Helper()
	r := &raft{fsm: fsm.New(state.New(), hclog.NewNullLogger())}
	lifecycles.Check(t, r.fsm.Store())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return &server{endpoint.New(endpoint.Config{Store: r.fsm.Store(), Raft: r, Region: region, Now: func() time.Time { return now }}), t, ctx}
}

// draft is the JSON of a small job, with more of it if given.
func draft(id, kind string, more string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"ID":%q,"Name":%q,"Type":%q,"Datacenters":["*"],%s
		"TaskGroups":[{"Name":"g","Count":1,"Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"/bin/true"}}]}]}`, id, id, kind, more))
}

func (s *server) register(job json.RawMessage) *api.JobRegisterResponse {
	s.t.Helper()
	r, err := s.RegisterJob(s.ctx, &api.JobRegisterRequest{Job: job})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *server) state() *state.View { return s.Store.View() }

func TestARegistrationMakesAJobAndItsEvaluation(t *testing.T) {
	s := newServer(t)
	r := s.register(draft("a", "batch", ""))
	job, eval := s.state().JobByID("default", "a"), s.state().EvalByID(r.EvalID)
	if job == nil || eval == nil || eval.JobModifyIndex != job.JobModifyIndex || eval.TriggeredBy != model.EvalTriggerJobRegister || r.EvalCreateIndex != r.Index {
		t.Fatalf("job %+v, eval %+v, answer %+v", job, eval, r)
	}
	if job.SubmitTime != now.UnixNano() || job.Priority != 50 || job.NodePool != "default" {
		t.Errorf("the job is %+v", job)
	}
}

func TestBadRegistrationsAreRefusedInWords(t *testing.T) {
	s := newServer(t)
	s.register(draft("svc", "service", ""))
	s.register(draft("cron", "batch", `"Periodic":{"Spec":"@daily"},`))
	for name, c := range map[string]struct {
		req  api.JobRegisterRequest
		want string
	}{
		"nothing":           {api.JobRegisterRequest{}, "Job must be specified"},
		"null":              {api.JobRegisterRequest{Job: json.RawMessage("null")}, "Job must be specified"},
		"wrong shape":       {api.JobRegisterRequest{Job: json.RawMessage(`{"ID":7}`)}, ""},
		"other id":          {api.JobRegisterRequest{Job: draft("a", "batch", ""), JobID: "b"}, "Job ID does not match"},
		"no groups":         {api.JobRegisterRequest{Job: json.RawMessage(`{"ID":"a","Name":"a","Datacenters":["*"]}`)}, "Missing job task groups"},
		"namespace":         {api.JobRegisterRequest{Job: draft("a", "batch", `"Namespace":"none",`)}, `job "a" is in nonexistent namespace "none"`},
		"node pool":         {api.JobRegisterRequest{Job: draft("a", "batch", `"NodePool":"none",`)}, `job "a" is in nonexistent node pool "none"`},
		"type":              {api.JobRegisterRequest{Job: draft("svc", "batch", "")}, `cannot update job from type "service" to "batch"`},
		"no more periodic":  {api.JobRegisterRequest{Job: draft("cron", "batch", "")}, "cannot update non-periodic job"},
		"parameterized now": {api.JobRegisterRequest{Job: draft("cron", "batch", `"Periodic":{"Spec":"@daily"},"ParameterizedJob":{},`)}, "cannot update non-parameterized job"},
		"times are over":    {api.JobRegisterRequest{Job: draft("a", "batch", `"Periodic":{"Spec":"0 0 1 1 * 2020"},`)}, "would never be launched"},
		"priority":          {api.JobRegisterRequest{Job: draft("a", "batch", `"Priority":101,`)}, "Job priority must be between [1, 100]"},
		"index":             {api.JobRegisterRequest{Job: draft("svc", "service", ""), EnforceIndex: true, JobModifyIndex: 999}, "Enforcing job modify index 999"},
	} {
		if _, err := s.RegisterJob(s.ctx, &c.req); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	if n := s.state().Sizes()[state.TableJobs]; n != 2 {
		t.Errorf("%d jobs are stored", n)
	}
}

func TestWhatARegistrationRefusesIsRefusedByValidateAndPlanToo(t *testing.T) {
	s := newServer(t)
	s.register(draft("svc", "service", ""))
	for job, want := range map[string]string{
		string(draft("a", "batch", `"Namespace":"none",`)):                                  "nonexistent namespace",
		string(draft("a", "batch", `"NodePool":"none",`)):                                   "nonexistent node pool",
		string(draft("svc", "batch", "")):                                                   "cannot update job from type",
		string(draft("a", "batch", `"Periodic":{"Spec":"0 0 1 1 * 2020"},`)):                "would never be launched",
		strings.Replace(string(draft("a", "batch", "")), `"Count":1,`, `"Count":60000,`, 1): "60000",
	} {
		_, registered := s.RegisterJob(s.ctx, &api.JobRegisterRequest{Job: json.RawMessage(job)})
		_, planned := s.PlanJob(s.ctx, &api.JobPlanRequest{Job: json.RawMessage(job)})
		validated, err := s.ValidateJob(s.ctx, &api.JobValidateRequest{Job: json.RawMessage(job)})
		if err != nil {
			t.Fatal(err)
		}
		for what, got := range map[string]string{"registered": fmt.Sprint(registered), "planned": fmt.Sprint(planned), "validated": validated.Error, "validated, a problem": fmt.Sprint(validated.ValidationErrors)} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q, not %q: %s", what, got, want, job)
			}
		}
	}
}

func TestAJobIsOfTheRegionOfItsServersOrRefused(t *testing.T) {
	s := newServerOf(t, "eu")
	for id, more := range map[string]string{"none": "", "default": `"Region":"global",`, "own": `"Region":"eu",`} {
		s.register(draft(id, "batch", more))
		if got := s.state().JobByID("default", id).Region; got != "eu" {
			t.Errorf("%s: the job is of region %q", id, got)
		}
	}
	foreign := draft("foreign", "batch", `"Region":"us",`)
	_, registered := s.RegisterJob(s.ctx, &api.JobRegisterRequest{Job: foreign})
	_, planned := s.PlanJob(s.ctx, &api.JobPlanRequest{Job: foreign})
	_, validated := s.ValidateJob(s.ctx, &api.JobValidateRequest{Job: foreign})
	for what, err := range map[string]error{"registered": registered, "planned": planned, "validated": validated} {
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "No path to region") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if s.state().JobByID("default", "foreign") != nil {
		t.Error("a job for another region is stored")
	}
}

func TestAJobWithoutAnIDIsNamedSo(t *testing.T) {
	s := newServer(t)
	v, err := s.ValidateJob(s.ctx, &api.JobValidateRequest{Job: json.RawMessage(`{"ID":null,"Name":"web","Type":"batch","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"x"}}]}]}`)})
	if err != nil || len(v.ValidationErrors) != 1 || v.ValidationErrors[0] != "Missing job ID" || !v.DriverConfigValidated {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestParentsGetNoEvaluation(t *testing.T) {
	s := newServer(t)
	for id, more := range map[string]string{"cron": `"Periodic":{"Spec":"@daily"},`, "hook": `"ParameterizedJob":{},`} {
		if r := s.register(draft(id, "batch", more)); r.EvalID != "" {
			t.Errorf("%s got eval %s", id, r.EvalID)
		}
		d, err := s.DeregisterJob(s.ctx, &api.JobDeregisterRequest{Namespace: "default", JobID: id})
		if err != nil || d.EvalID != "" {
			t.Errorf("the end of %s: %+v, %v", id, d, err)
		}
		if got := s.state().JobByID("default", id).Status; got != model.JobStatusDead {
			t.Errorf("%s is %s after its stop", id, got)
		}
	}
}

func TestWhatWasSubmittedIsKeptForSixVersionsAndWithTheJobOnly(t *testing.T) {
	s := newServer(t)
	for v := range 8 {
		_, err := s.RegisterJob(s.ctx, &api.JobRegisterRequest{Job: draft("a", "batch", fmt.Sprintf(`"Priority":%d,`, v+1)),
			Submission: &model.JobSubmission{Source: fmt.Sprint("source ", v), Format: "hcl2", VariableFlags: map[string]string{"v": fmt.Sprint(v)}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for v := range uint64(8) {
		sub := s.state().JobSubmission("default", "a", v)
		if kept := sub != nil; kept != (v >= 2) {
			t.Errorf("version %d is kept: %v", v, kept)
		} else if kept && (sub.Source != fmt.Sprint("source ", v) || sub.Version != v || sub.JobModifyIndex == 0) {
			t.Errorf("version %d: %+v", v, sub)
		}
	}
	if _, err := s.DeregisterJob(s.ctx, &api.JobDeregisterRequest{Namespace: "default", JobID: "a", Purge: true}); err != nil {
		t.Fatal(err)
	}
	s.register(draft("a", "batch", ""))
	if sub := s.state().JobSubmission("default", "a", 7); sub != nil {
		t.Errorf("a purged job's source is back: %+v", sub)
	}
}

func TestAJobFileThatIsTooLargeIsNotKeptAndThatIsSaid(t *testing.T) {
	s := newServer(t)
	r, err := s.RegisterJob(s.ctx, &api.JobRegisterRequest{Job: draft("a", "batch", ""), Submission: &model.JobSubmission{Source: strings.Repeat("x", 1<<20+1)}})
	if err != nil || !strings.Contains(r.Warnings, "job source size of 1.0 MB exceeds maximum of 1.0 MB and will be discarded") {
		t.Fatalf("%+v, %v", r, err)
	}
	if s.state().JobByID("default", "a") == nil || s.state().JobSubmission("default", "a", 0) != nil {
		t.Error("the job is missing, or its source is kept")
	}
}

func TestEvaluationsByHandForceFailedAllocs(t *testing.T) {
	s := newServer(t)
	s.register(draft("a", "batch", ""))
	if err := s.Store.Update(s.state().Index()+1, func(tx *state.Tx) error {
		for id, status := range map[string]string{"bad": "failed", "good": "running"} {
			tx.PlaceAlloc(&model.Allocation{ID: id, Namespace: "default", JobID: "a", TaskGroup: "g", NodeID: "n", DesiredStatus: "run", ClientStatus: "pending"}, 1)
			if err := tx.UpdateAllocFromClient(&model.AllocReport{ID: id, ClientStatus: status}, 1); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	req := &api.JobEvaluateRequest{Namespace: "default", JobID: "a"}
	for _, force := range []bool{false, true} {
		req.EvalOptions.ForceReschedule = force
		r, err := s.EvaluateJob(s.ctx, req)
		if err != nil || s.state().EvalByID(r.EvalID) == nil {
			t.Fatalf("%+v, %v", r, err)
		}
		if got := s.state().AllocByID("bad").DesiredTransition.ShouldForceReschedule(); got != force {
			t.Errorf("forced: %v, not %v", got, force)
		}
	}
	if s.state().AllocByID("good").DesiredTransition.ShouldForceReschedule() {
		t.Error("an alloc that runs is forced, too")
	}
}

func TestStabilityIsSetForAVersionThatExists(t *testing.T) {
	s := newServer(t)
	s.register(draft("a", "batch", ""))
	if _, err := s.SetJobStability(s.ctx, &api.JobStabilityRequest{Namespace: "default", JobID: "a", JobVersion: 0, Stable: true}); err != nil || !s.state().JobByID("default", "a").Stable {
		t.Errorf("stable: %v, %v", s.state().JobByID("default", "a").Stable, err)
	}
	for _, bad := range []api.JobStabilityRequest{{Namespace: "default", JobID: "a", JobVersion: 7}, {Namespace: "default", JobID: "b"}} {
		if _, err := s.SetJobStability(s.ctx, &bad); !errdefs.IsNotFound(err) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestAPlanOfAPeriodicJobSaysWhenItIsLaunchedNext(t *testing.T) {
	s := newServer(t)
	p, err := s.PlanJob(s.ctx, &api.JobPlanRequest{Job: draft("cron", "batch", `"Periodic":{"Specs":["@hourly","30 12 * * *"],"TimeZone":"Europe/Berlin"},`)})
	if err != nil || p.NextPeriodicLaunch == nil || !p.NextPeriodicLaunch.Equal(now.Add(time.Hour)) {
		t.Fatalf("next launch %v, %v", p.NextPeriodicLaunch, err)
	}
	if p, err = s.PlanJob(s.ctx, &api.JobPlanRequest{Job: draft("once", "batch", "")}); err != nil || p.NextPeriodicLaunch != nil {
		t.Errorf("a job that is not periodic: %v, %v", p.NextPeriodicLaunch, err)
	}
}

func TestNodeUpdatesAskForJobsThatAreNotOver(t *testing.T) {
	s := newServer(t)
	for _, id := range []string{"live", "over"} {
		s.register(draft(id, "batch", ""))
	}
	s.register(draft("sys", "system", ""))
	s.register(draft("sysb", "sysbatch", ""))
	s.register(draft("hook", "sysbatch", `"ParameterizedJob":{},`))
	if err := s.Store.Update(s.state().Index()+1, func(tx *state.Tx) error {
		tx.RegisterNode(&model.Node{ID: "n", NodePool: "default", Status: model.NodeStatusReady})
		for id, status := range map[string]string{"live": "running", "over": "complete"} {
			tx.PlaceAlloc(&model.Allocation{ID: id, Namespace: "default", JobID: id, TaskGroup: "g", NodeID: "n", DesiredStatus: "run", ClientStatus: "pending"}, 1)
			if err := tx.UpdateAllocFromClient(&model.AllocReport{ID: id, ClientStatus: status}, 1); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r, err := s.EvaluateNode(s.ctx, "n")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, id := range r.EvalIDs {
		got[s.state().EvalByID(id).JobID] = true
	}
	if len(got) != 3 || !got["live"] || !got["sys"] || !got["sysb"] {
		t.Errorf("evaluated are %v", got)
	}
}

// The sentences cost runs of the scheduler, and the reference's clients do not know them.
func TestAPlanHasSentencesOnlyIfTheyAreAskedFor(t *testing.T) {
	s := newServer(t)
	for _, say := range []bool{false, true} {
		p, err := s.PlanJob(s.ctx, &api.JobPlanRequest{Job: draft("web", "service", ""), Say: say})
		if err != nil || len(p.FailedTGAllocs) != 1 || len(p.Says) > 0 != say {
			t.Errorf("asked: %v, and the plan says %q, refuses %v, %v", say, p.Says, p.FailedTGAllocs, err)
		}
	}
}
