// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
)

// record is one request and its answer, recorded from the reference.
type record struct {
	name    string
	Request struct {
		Method, Path string
	}
	Response struct {
		Status  int
		Headers map[string]string
		Body    json.RawMessage
	}
}

func records(t *testing.T) map[int]record { return recordsIn(t, "http") }

// recordsIn are the records of one folder by their number.
func recordsIn(t *testing.T, folder string) map[int]record {
	t.Helper()
	root := cmp.Or(os.Getenv("DROVER_COMPAT"), filepath.Join("..", "..", "..", "shared", "compat"))
	files, err := filepath.Glob(filepath.Join(root, folder, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("no records under %s; set DROVER_COMPAT", root)
	}
	out := map[int]record{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		r := record{name: strings.TrimSuffix(filepath.Base(f), ".json")}
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatal(err)
		}
		var n int
		if _, err := fmt.Sscanf(r.name, "%d-", &n); err != nil {
			t.Fatal(err)
		}
		out[n] = r
	}
	return out
}

// recordedView is the state at the time of records 45 to 98, read back from them.
type recordedView struct {
	*fakeView
	summary    *model.JobSummary
	submission *model.JobSubmission
}

func (v *recordedView) JobSummary(string, string) *model.JobSummary { return v.summary }
func (v *recordedView) JobSubmission(string, string, uint64) *model.JobSubmission {
	return v.submission
}

func body[T any](t *testing.T, r record) T {
	t.Helper()
	return decode[T](t, string(r.Response.Body))
}

func viewOf(t *testing.T, rec map[int]record) *recordedView {
	t.Helper()
	v := &recordedView{fakeView: &fakeView{index: 20}}
	v.jobs = body[struct{ Versions []*model.Job }](t, rec[51]).Versions
	v.allocs = body[[]*model.Allocation](t, rec[71])
	for _, a := range v.allocs {
		a.JobVersion, a.Job = a.Job.Version, nil
	}
	v.evals = body[[]*model.Evaluation](t, rec[65])
	v.deployments = body[[]*model.Deployment](t, rec[67])
	v.services = body[[]*model.ServiceRegistration](t, rec[55])
	v.nodes = []*model.Node{body[*model.Node](t, rec[33])}
	v.namespaces = body[[]*model.Namespace](t, rec[14])
	v.pools = body[[]*model.NodePool](t, rec[16])
	v.config = body[struct{ SchedulerConfig *model.SchedulerConfiguration }](t, rec[11]).SchedulerConfig
	v.summary = body[*model.JobSummary](t, rec[46])
	v.submission = body[*model.JobSubmission](t, rec[52])
	return v
}

// dataKeys name objects whose keys are data: only their kind is compared.
var dataKeys = []string{"Attributes", "Links", "HostNetworks", "HostVolumes", "Meta", "Env", "Config", "Tags", "NodesAvailable",
	"ClassFiltered", "ConstraintFiltered", "ClassExhausted", "DimensionExhausted", "Scores", "ScoreMetaData", "CNI", "ClassEligibility", "Drivers"}

// optionalKeys are there or not by timing.
var optionalKeys = []string{"JobModifyIndex", "PreviousEval", "NextEval", "PreviousAllocation", "BlockedEval", "WaitUntil", "Wait"}

// shapeDiff lists where two JSON values differ in shape: keys, kinds, and null against empty.
func shapeDiff(there, here any, path string) []string {
	if a, b := kindOf(there), kindOf(here); a != b {
		return []string{fmt.Sprintf("%s: %s there, %s here", path, a, b)}
	}
	var out []string
	switch a := there.(type) {
	case []any:
		b := here.([]any)
		if len(a) > 0 && len(b) > 0 {
			return shapeDiff(a[0], b[0], path+"[0]")
		}
		if len(a) != len(b) {
			out = append(out, fmt.Sprintf("%s: %d elements there, %d here", path, len(a), len(b)))
		}
	case map[string]any:
		b := here.(map[string]any)
		if slices.Contains(dataKeys, path[strings.LastIndexByte(path, '.')+1:]) {
			return nil
		}
		for k, va := range a {
			if slices.Contains(optionalKeys, k) {
				continue
			}
			if vb, ok := b[k]; ok {
				out = append(out, shapeDiff(va, vb, path+"."+k)...)
			} else {
				out = append(out, path+"."+k+": missing here")
			}
		}
		for k := range b {
			if _, ok := a[k]; !ok && !slices.Contains(optionalKeys, k) {
				out = append(out, path+"."+k+": only here")
			}
		}
	}
	return out
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "list"
	}
	return "object"
}

var digits = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|\d+`)

func TestReadsAnswerInTheShapeOfTheRecords(t *testing.T) {
	rec := records(t)
	b := newBackend(nil)
	b.recorded = viewOf(t, rec)
	srv := serve(t, b)
	reads := []int{11, 14, 15, 16, 17, 18, 19, 23, 24, 25, 26, 29, 32, 33, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64,
		65, 66, 67, 68, 69, 70, 71, 72, 73, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 181}
	for _, n := range reads {
		r := rec[n]
		t.Run(r.name, func(t *testing.T) {
			resp, text := ask(t, srv, r.Request.Method, r.Request.Path, "")
			if resp.StatusCode != r.Response.Status {
				t.Fatalf("status %d there, %d here: %.200s", r.Response.Status, resp.StatusCode, text)
			}
			compareHeaders(t, r, resp.Header)
			var there, here any
			if err := json.Unmarshal(r.Response.Body, &there); err != nil {
				t.Fatal(err)
			}
			if want, ok := there.(string); ok && resp.StatusCode >= 400 {
				if digits.ReplaceAllString(want, "#") != digits.ReplaceAllString(text, "#") {
					t.Errorf("error text %q there, %q here", want, text)
				}
				return
			}
			if err := json.Unmarshal([]byte(text), &here); err != nil {
				t.Fatal(err)
			}
			for _, d := range shapeDiff(there, here, "") {
				t.Error(d)
			}
		})
	}
}

func compareHeaders(t *testing.T, r record, here map[string][]string) {
	t.Helper()
	wanted := func(k string) bool { return strings.HasPrefix(k, "X-Nomad") || k == "Content-Type" }
	for k := range r.Response.Headers {
		if wanted(k) && here[k] == nil {
			t.Errorf("header %s: only there", k)
		}
	}
	for k := range here {
		if _, ok := r.Response.Headers[k]; wanted(k) && !ok {
			t.Errorf("header %s: only here", k)
		}
	}
}
