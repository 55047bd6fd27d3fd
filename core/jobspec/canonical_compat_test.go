// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
)

// exchange is one recorded request and its answer.
type exchange struct {
	Request  struct{ Body json.RawMessage }
	Response struct{ Body json.RawMessage }
}

func recorded(t *testing.T, name string) exchange {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(compatDir(t), "http", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var e exchange
	if err := json.Unmarshal(b, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestParseRequestsAnswerAsTheReferenceDoes(t *testing.T) {
	for _, name := range []string{"035-jobs-parse", "036-jobs-parse-canonicalize"} {
		t.Run(name, func(t *testing.T) {
			e := recorded(t, name)
			var req struct {
				JobHCL       string
				Canonicalize bool
			}
			if err := json.Unmarshal(e.Request.Body, &req); err != nil {
				t.Fatal(err)
			}
			draft, err := jobspec.ParseHCL([]byte(req.JobHCL), jobspec.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if req.Canonicalize {
				draft.FillDefaults()
			}
			got, err := json.Marshal(draft)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(decodeAny(t, e.Response.Body), decodeAny(t, got)); diff != "" {
				t.Errorf("differs (-reference +ours):\n%s", diff)
			}
		})
	}
}

func TestMistakesAreReportedAsTheReferenceDoes(t *testing.T) {
	e := recorded(t, "037-jobs-parse-error")
	var req struct{ JobHCL string }
	var want string
	if err := json.Unmarshal(e.Request.Body, &req); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(e.Response.Body, &want); err != nil {
		t.Fatal(err)
	}
	_, err := jobspec.ParseHCL([]byte(req.JobHCL), jobspec.Options{})
	if err == nil || "Failed to parse job: "+err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestCanonicalJobsReadBackAsTheReferencesDo compares registered jobs with what is read back.
func TestCanonicalJobsReadBackAsTheReferencesDo(t *testing.T) {
	for request, readBack := range map[string]string{
		"044-register": "045-job", "123-register-batch": "131-job-batch",
		"124-register-param": "134-job-param", "128-register-periodic": "135-job-periodic",
	} {
		t.Run(readBack, func(t *testing.T) {
			draft, err := jobspec.ParseJSON(recorded(t, request).Request.Body)
			if err != nil {
				t.Fatal(err)
			}
			got, err := draft.Canonical()
			if err != nil {
				t.Fatal(err)
			}
			if err := got.Validate(); err != nil {
				t.Errorf("a job that the reference takes is refused: %v", err)
			}
			b, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			want := decodeAny(t, recorded(t, readBack).Response.Body).(map[string]any)
			have := decodeAny(t, b).(map[string]any)
			forgetWhatServersSet(want)
			forgetWhatServersSet(have)
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("differs (-reference +ours):\n%s", diff)
			}
		})
	}
}

func forgetWhatServersSet(job map[string]any) {
	for _, k := range []string{"CreateIndex", "ModifyIndex", "JobModifyIndex", "SubmitTime", "Status", "Stable"} {
		delete(job, k)
	}
	for _, g := range job["TaskGroups"].([]any) {
		if s, ok := g.(map[string]any)["Scaling"].(map[string]any); ok {
			for _, k := range []string{"CreateIndex", "ModifyIndex", "ID"} {
				delete(s, k)
			}
		}
	}
}

// compat/http-services/002-parse: a job that names no datacenters is parsed so, and is for all
// of them once it is registered.
func TestAParsedJobHasOnlyTheDatacentersThatItNames(t *testing.T) {
	draft, err := jobspec.ParseHCL([]byte(`job "a" {}`), jobspec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	job, err := draft.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	draft.FillDefaults()
	if draft.Datacenters != nil || len(job.Datacenters) != 1 || job.Datacenters[0] != "*" {
		t.Errorf("parsed %q, registered %q", draft.Datacenters, job.Datacenters)
	}
}

func TestCanonicalLeavesTheDraftAsItIs(t *testing.T) {
	draft, err := jobspec.ParseJSON([]byte(`{"ID":"a","Type":"batch","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"n":1}}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	before, _ := json.Marshal(draft)
	job, err := draft.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	job.TaskGroups[0].Tasks[0].Config["n"] = 2
	after, _ := json.Marshal(draft)
	if string(before) != string(after) {
		t.Errorf("the draft changed:\n%s\n%s", before, after)
	}
	if got := job.TaskGroups[0].RestartPolicy.Attempts; got != 3 || job.Type != model.JobTypeBatch {
		t.Errorf("a batch group has %d restart attempts, want 3", got)
	}
}
