// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

const uuid = "11111111-2222-3333-4444-555555555555"

func threeJobs() *fakeView {
	return &fakeView{index: 9, jobs: []*model.Job{
		{Namespace: "default", ID: "a", Name: "a", Type: "service", Version: 1, ModifyIndex: 9, Meta: map[string]string{"k": "v"}},
		{Namespace: "default", ID: "a", Name: "a", Type: "service", Version: 0, ModifyIndex: 4},
		{Namespace: "default", ID: "b/dispatch-1", Name: "b", Type: "batch", ModifyIndex: 5},
		{Namespace: "other", ID: "c", Name: "c", Type: "service", ModifyIndex: 6},
	}}
}

func TestRefusalsReadAsTheReferenceWordsThem(t *testing.T) {
	b := newBackend(threeJobs())
	b.registerErr = errdefs.InvalidArgumentf("1 error occurred:\n\t* bad")
	srv := serve(t, b)
	for _, c := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"GET", "/v1/nope", "", 404, ""},
		{"PATCH", "/v1/jobs", "{}", 405, "Invalid method"},
		{"GET", "/v1/jobs?region=nowhere", "", 500, "No path to region"},
		{"GET", "/v1/job/none", "", 404, "job not found"},
		{"GET", "/v1/allocation/zz", "", 500, "alloc lookup failed: index error: UUID must be 36 characters"},
		{"GET", "/v1/allocation/" + uuid, "", 404, "alloc not found"},
		{"GET", "/v1/evaluation/" + uuid, "", 404, "eval not found"},
		{"GET", "/v1/node/" + uuid, "", 404, "node not found"},
		{"GET", "/v1/deployment/" + uuid, "", 404, "deployment not found"},
		{"PUT", "/v1/jobs", "{nope", 400, "invalid character 'n' looking for beginning of object key string"},
		{"PUT", "/v1/jobs", "{}", 400, "Job must be specified"},
		{"PUT", "/v1/jobs", `{"Job":{"ID":"a"}}`, 500, "1 error occurred:\n\t* bad"},
		{"PUT", "/v1/job/a", `{"Job":{"ID":"b"}}`, 400, "Job ID does not match"},
		{"GET", "/v1/acl/policies", "", 400, "ACL support disabled"},
		{"GET", "/v1/client/fs/logs/x?task=t&type=stdout&offset=-5", "", 400, "offset must not be negative; origin=end counts from the end"},
		{"GET", "/v1/client/fs/stream/x?path=a&offset=-5", "", 400, "offset must not be negative; origin=end counts from the end"},
		{"GET", "/v1/jobs?index=x", "", 400, "Invalid index"},
		{"GET", "/v1/jobs?wait=x", "", 400, "Invalid wait time"},
		{"GET", "/v1/jobs?max_stale=x", "", 400, "Invalid max_stale: give a duration, for example 10s"},
		{"GET", "/v1/jobs?stale&max_stale=-1s", "", 400, "Invalid max_stale: give a duration, for example 10s"},
		{"GET", "/v1/status/leader", "", 500, "No cluster leader"},
		{"PUT", "/v1/operator/scheduler/configuration", `{"SchedulerAlgorithm":"nope"}`, 400, "invalid scheduler algorithm: nope"},
		{"GET", "/v1/jobs?filter=Nope%20%3D%3D", "", 400, "failed to create result paginator: failed to read filter expression: 1:8 (7): no match found, expected: \"-\", \"0\", \"\\\"\", \"`\", [ \\t\\r\\n], [1-9] or [a-zA-Z]"},
	} {
		resp, body := ask(t, srv, c.method, c.path, c.body)
		if resp.StatusCode != c.status || body != c.text {
			t.Errorf("%s %s: got %d %q, want %d %q", c.method, c.path, resp.StatusCode, body, c.status, c.text)
		}
	}
}

func TestAPanickingHandlerAnswers500AndTheServerLivesOn(t *testing.T) {
	srv := serve(t, newBackend(threeJobs()))
	if resp, _ := ask(t, srv, "GET", "/v1/agent/self", ""); resp.StatusCode != 500 { // the fake has no Self
		t.Fatalf("got %d, want 500", resp.StatusCode)
	}
	if resp, _ := ask(t, srv, "GET", "/v1/jobs", ""); resp.StatusCode != 200 {
		t.Fatalf("after a panic: got %d, want 200", resp.StatusCode)
	}
}

func TestABodyOverTheLimitIsRefusedWith413(t *testing.T) {
	srv := serve(t, newBackend(threeJobs()))
	resp, body := ask(t, srv, "PUT", "/v1/jobs", `{"Job":"`+strings.Repeat("x", 17<<20)+`"}`)
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Fatalf("got %d %.80q", resp.StatusCode, body)
	}
}

func TestReadsCarryIndexLeaderAndContact(t *testing.T) {
	srv := serve(t, newBackend(threeJobs()))
	resp, _ := ask(t, srv, "GET", "/v1/jobs", "")
	for h, want := range map[string]string{"X-Nomad-Index": "9", "X-Nomad-KnownLeader": "true", "X-Nomad-LastContact": "0", "Content-Type": "application/json", "Vary": "Accept-Encoding"} {
		if got := resp.Header.Get(h); got != want {
			t.Errorf("%s: got %q, want %q", h, got, want)
		}
	}
	resp, _ = ask(t, srv, "GET", "/v1/job/none", "")
	if resp.Header.Get("X-Nomad-Index") != "9" {
		t.Error("an object that is not there must still tell the index to wait on")
	}
}

func ids(t *testing.T, body string) []string {
	t.Helper()
	var out []string
	for _, j := range decode[[]api.JobListStub](t, body) {
		out = append(out, j.Namespace+"/"+j.ID)
	}
	return out
}

func TestListsHonourNamespacePrefixFilterOrderAndMeta(t *testing.T) {
	srv := serve(t, newBackend(threeJobs()))
	for query, want := range map[string][]string{
		"":                                  {"default/a", "default/b/dispatch-1"},
		"?namespace=*":                      {"default/a", "default/b/dispatch-1", "other/c"},
		"?namespace=other":                  {"other/c"},
		"?namespace=*&reverse=true":         {"other/c", "default/b/dispatch-1", "default/a"},
		"?prefix=b":                         {"default/b/dispatch-1"},
		"?prefix=zzz":                       nil,
		`?filter=Type+%3D%3D+%22service%22`: {"default/a"},
	} {
		resp, body := ask(t, srv, "GET", "/v1/jobs"+query, "")
		if got := ids(t, body); resp.StatusCode != 200 || !slices.Equal(got, want) {
			t.Errorf("%q: got %d %v, want %v", query, resp.StatusCode, got, want)
		}
		if want == nil && body != "[]" {
			t.Errorf("%q: an empty list must be [], got %q", query, body)
		}
	}
	_, body := ask(t, srv, "GET", "/v1/jobs?prefix=a", "")
	if strings.Contains(body, `"Meta"`) {
		t.Error("meta shows only when asked for")
	}
	if _, body = ask(t, srv, "GET", "/v1/jobs?prefix=a&meta=true", ""); !strings.Contains(body, `"Meta":{"k":"v"}`) {
		t.Errorf("meta was asked for: %s", body)
	}
}

func TestPagesVisitEveryItemOnceInBothDirections(t *testing.T) {
	v := &fakeView{index: 50}
	for i := range 23 {
		id := fmt.Sprintf("%08x-2222-3333-4444-555555555555", 1000-i)
		v.evals = append(v.evals, &model.Evaluation{ID: id, Namespace: "default", CreateIndex: uint64(10 + i/3), ModifyIndex: 40})
	}
	srv := serve(t, newBackend(v))
	for _, dir := range []string{"", "&reverse=true"} {
		seen, token := map[string]bool{}, ""
		var created []uint64
		for range 30 {
			resp, body := ask(t, srv, "GET", "/v1/evaluations?per_page=4"+dir+"&next_token="+token, "")
			for _, e := range decode[[]model.Evaluation](t, body) {
				if seen[e.ID] {
					t.Fatalf("eval %s is on two pages", e.ID)
				}
				seen[e.ID] = true
				created = append(created, e.CreateIndex)
			}
			if token = resp.Header.Get("X-Nomad-NextToken"); token == "" {
				break
			}
		}
		if len(seen) != 23 {
			t.Errorf("direction %q: saw %d of 23 evals", dir, len(seen))
		}
		if dir != "" {
			slices.Reverse(created)
		}
		if !slices.IsSorted(created) {
			t.Errorf("direction %q: pages are out of order: %v", dir, created)
		}
	}
}

func TestABlockedReadAnswersWhenTheStateChanges(t *testing.T) {
	b := newBackend(threeJobs())
	srv := serve(t, b)
	got := make(chan string, 1)
	go func() {
		resp, err := srv.Client().Get(srv.URL + "/v1/jobs?index=9&wait=60s")
		if err != nil {
			got <- err.Error()
			return
		}
		defer resp.Body.Close()
		got <- resp.Header.Get("X-Nomad-Index")
	}()
	<-b.watched // the read waits, or is about to look at the old state once more
	select {
	case early := <-got:
		t.Fatalf("the read did not wait: %s", early)
	default:
	}
	newer := threeJobs()
	newer.index = 12
	b.set(newer)
	if index := <-got; index != "12" {
		t.Fatalf("got index %s, want 12", index)
	}
}

func TestABlockedReadAnswersAtItsTimeoutWithTheOldIndex(t *testing.T) {
	srv := serve(t, newBackend(threeJobs()))
	resp, _ := ask(t, srv, "GET", "/v1/jobs?index=9&wait=10ms", "")
	if resp.StatusCode != 200 || resp.Header.Get("X-Nomad-Index") != "9" {
		t.Fatalf("got %d, index %s", resp.StatusCode, resp.Header.Get("X-Nomad-Index"))
	}
}

func TestJobIDsMayHoldSlashesEscapedOrNot(t *testing.T) {
	srv := serve(t, newBackend(threeJobs()))
	for _, path := range []string{"/v1/job/b%2Fdispatch-1", "/v1/job/b/dispatch-1"} {
		if _, body := ask(t, srv, "GET", path, ""); decode[model.Job](t, body).ID != "b/dispatch-1" {
			t.Errorf("%s: %s", path, body)
		}
		if _, body := ask(t, srv, "GET", path+"/summary", ""); decode[model.JobSummary](t, body).JobID != "b/dispatch-1" {
			t.Errorf("%s/summary: %s", path, body)
		}
	}
}

func TestAJobIDMayHoldWhatPathsAreMadeOf(t *testing.T) {
	v := threeJobs()
	for _, id := range []string{"a/plan", "a/versions/1/tag", "troublesome:characters\n?&字", "%2F", "100%"} {
		v.jobs = append(v.jobs, &model.Job{ID: id, Namespace: "default"})
		srv := serve(t, newBackend(v))
		for _, suffix := range []string{"", "/summary"} {
			resp, body := ask(t, srv, "GET", "/v1/job/"+url.PathEscape(id)+suffix, "")
			var got struct{ ID, JobID string }
			if err := json.Unmarshal([]byte(body), &got); err != nil || resp.StatusCode != 200 || got.ID+got.JobID != id {
				t.Errorf("%q%s: %d %s", id, suffix, resp.StatusCode, body)
			}
		}
	}
}

func TestRegisterPassesTheDraftOnUntouched(t *testing.T) {
	b := newBackend(threeJobs())
	srv := serve(t, b)
	resp, body := ask(t, srv, "POST", "/v1/jobs?namespace=other", `{"Job":{"ID":"x","Priority":null},"EnforceIndex":true,"JobModifyIndex":3}`)
	if resp.StatusCode != 200 || resp.Header.Get("X-Nomad-Index") != "5" {
		t.Fatalf("got %d %s", resp.StatusCode, body)
	}
	req := b.registered[0]
	if string(req.Job) != `{"ID":"x","Priority":null}` || !req.EnforceIndex || req.JobModifyIndex != 3 || req.Namespace != "other" {
		t.Errorf("the backend got %+v", req)
	}
	want := `{"EvalID":"e1","EvalCreateIndex":5,"JobModifyIndex":5,"Warnings":"","Index":5,"KnownLeader":false,"LastContact":0,"NextToken":""}`
	if body != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
}

func TestADispatchedJobTellsItsPayload(t *testing.T) {
	v := threeJobs()
	v.jobs[2].Dispatched, v.jobs[2].Payload = true, []byte("what to do")
	srv := serve(t, newBackend(v))
	resp, body := ask(t, srv, "GET", "/v1/job/b%2Fdispatch-1/dispatch/payload", "")
	if resp.StatusCode != 200 || body != `{"Payload":"d2hhdCB0byBkbw=="}` {
		t.Errorf("got %d %q", resp.StatusCode, body)
	}
	for path, want := range map[string]string{"a": "job was not dispatched, so it has no payload", "none": "job not found"} {
		if resp, body := ask(t, srv, "GET", "/v1/job/"+path+"/dispatch/payload", ""); resp.StatusCode != 404 || body != want {
			t.Errorf("%s: got %d %q, want 404 %q", path, resp.StatusCode, body, want)
		}
	}
}

func TestVersionsAreComparedWithTheirPredecessors(t *testing.T) {
	srv := serve(t, newBackend(threeJobs()))
	_, body := ask(t, srv, "GET", "/v1/job/a/versions?diffs=true", "")
	out := decode[struct {
		Diffs    []map[string]uint64
		Versions []model.Job
	}](t, body)
	if len(out.Versions) != 2 || len(out.Diffs) != 1 || out.Diffs[0]["From"] != 0 || out.Diffs[0]["To"] != 1 {
		t.Errorf("got %s", body)
	}
	if _, body = ask(t, srv, "GET", "/v1/job/c/versions?namespace=other&diffs=true", ""); !strings.Contains(body, `"Diffs":null`) {
		t.Errorf("one version has no diffs: %s", body)
	}
}

func TestANodeNeverTellsItsSecret(t *testing.T) {
	v := &fakeView{index: 3, nodes: []*model.Node{{ID: uuid, Name: "n", SecretID: "hush", ModifyIndex: 3, HTTPAddr: "10.0.0.1:4646", Attributes: map[string]string{"nomad.version": "1.2.3"}}}}
	srv := serve(t, newBackend(v))
	for _, path := range []string{"/v1/node/" + uuid, "/v1/nodes", "/v1/node/pool/all/nodes"} {
		resp, body := ask(t, srv, "GET", path, "")
		if resp.StatusCode != 200 || strings.Contains(body, "hush") {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
	_, body := ask(t, srv, "GET", "/v1/nodes", "")
	if st := decode[[]api.NodeListStub](t, body)[0]; st.Address != "10.0.0.1" || st.Version != "1.2.3" {
		t.Errorf("got %+v", st)
	}
}

func TestPrettyIndents(t *testing.T) {
	srv := serve(t, newBackend(threeJobs()))
	if _, body := ask(t, srv, "GET", "/v1/job/a?pretty", ""); !strings.Contains(body, "\n    \"ID\"") {
		t.Errorf("got %.80q", body)
	}
}

func TestAClientThatKnowsNothingOfFindingsGetsTheAnswerOfTheReference(t *testing.T) {
	b := newBackend(everything())
	b.findings = []*api.JobFinding{{TaskGroup: "g", Severity: api.FindingWarning, Message: "slow"}}
	srv := serve(t, b)
	if _, body := ask(t, srv, "POST", "/v1/jobs", `{"Job":{"ID":"x"}}`); strings.Contains(body, "Findings") {
		t.Errorf("not asked for: %s", body)
	}
	if _, body := ask(t, srv, "POST", "/v1/jobs?findings=true", `{"Job":{"ID":"x"}}`); !strings.Contains(body, "slow") {
		t.Errorf("asked for and missing: %s", body)
	}
}
