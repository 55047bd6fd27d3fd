// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package hostile_test

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/internal/testkit"
)

// routes maps the routes that accept a body to the type of the body.
var routes = map[string]any{
	"/v1/jobs":                                  struct{ Job *model.Job }{},
	"/v1/job/web":                               struct{ Job *model.Job }{},
	"/v1/job/web/plan":                          struct{ Job *model.Job }{},
	"/v1/validate/job":                          struct{ Job *model.Job }{},
	"/v1/jobs/parse":                            api.JobParseRequest{},
	"/v1/job/web/scale":                         api.JobScaleRequest{},
	"/v1/job/web/dispatch":                      api.JobDispatchRequest{},
	"/v1/job/web/evaluate":                      api.JobEvaluateRequest{},
	"/v1/job/web/revert":                        api.JobRevertRequest{},
	"/v1/job/web/stable":                        api.JobStabilityRequest{},
	"/v1/job/web/versions/t/tag":                api.JobTagRequest{},
	"/v1/namespace/web":                         model.Namespace{},
	"/v1/namespaces":                            model.Namespace{},
	"/v1/node/pool/web":                         model.NodePool{},
	"/v1/node/pools":                            model.NodePool{},
	"/v1/var/web":                               struct{ Items map[string]string }{},
	"/v1/operator/scheduler/configuration":      model.SchedulerConfiguration{},
	"/v1/operator/autopilot/configuration":      api.AutopilotConfiguration{},
	"/v1/node/" + aNode + "/drain":              api.NodeDrainRequest{},
	"/v1/node/" + aNode + "/eligibility":        api.NodeEligibilityRequest{},
	"/v1/search":                                map[string]string{},
	"/v1/search/fuzzy":                          map[string]string{},
	"/v1/deployment/promote/" + aNode:           map[string]any{},
	"/v1/deployment/allocation-health/" + aNode: map[string]any{},
	"/v1/plugin/registry/web":                   model.PluginSpec{},
}

const aNode = "11111111-2222-3333-4444-555555555555"

// ruin replaces parts of a value with null or with values of another type.
func (r *values) ruin(v any) any {
	switch n := r.IntN(60); n {
	case 0, 1, 2:
		return nil
	case 3:
		return []any{nil, map[string]any{}}
	case 4:
		return map[string]any{"": nil, "a": nil}
	case 5:
		return r.number()
	}
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = r.ruin(e)
		}
	case []any:
		for i, e := range v {
			v[i] = r.ruin(e)
		}
	}
	return v
}

// document returns a body for a route: of the right type, but any part of it may be
// invalid.
func (r *values) document(t *testing.T, like any) []byte {
	v := reflect.New(reflect.TypeOf(like))
	r.of(v.Elem(), 8)
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return []byte("{}") // JSON cannot represent such a number
	}
	var free any
	if err := json.Unmarshal(text, &free); err != nil {
		t.Fatal(err)
	}
	if free, err = any(r.ruin(free)), nil; r.IntN(3) == 0 {
		free = r.ruin(free)
	}
	if text, err = json.Marshal(free); err != nil {
		t.Fatal(err)
	}
	return text
}

func TestHostileBodiesChangeNothingForOthers(t *testing.T) {
	c := start(t)
	c.Node(nil)
	c.Run("web", 2)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := &values{Rand: rand.New(rand.NewPCG(seed, 0)), known: []string{"web", "g", "t", "default", "global", aNode, "raw_exec", "service"}}
	made, taken := 0, 0
	for end := time.Now().Add(attack); time.Now().Before(end); {
		for path, like := range routes {
			r.tame = r.IntN(2) == 0
			body := r.document(t, like)
			resp, text := c.Ask(http.MethodPut, path, string(body))
			made++
			if resp.StatusCode < 300 {
				taken++
			}
			if strings.Contains(text, "panicked") || strings.Contains(text, "cannot encode") {
				t.Fatalf("%s with %.2000s: %d %s", path, body, resp.StatusCode, text)
			}
		}
	}
	t.Logf("%d requests, %d of them taken", made, taken)
	c.Must("PUT", "/v1/operator/scheduler/configuration", `{"SchedulerAlgorithm":"binpack"}`, nil)
	c.Run("after", 2)
	for _, path := range []string{"/v1/jobs?namespace=*", "/v1/namespaces", "/v1/node/pools", "/v1/evaluations?namespace=*", "/v1/vars?namespace=*", "/v1/plugin/registry"} {
		if resp, text := c.Ask("GET", path, nil); resp.StatusCode >= 500 {
			t.Errorf("%s: %d %.300s", path, resp.StatusCode, text)
		}
	}
}

func TestHostileNullsInJobsAreRefusedWithTheirPlace(t *testing.T) {
	c := start(t)
	for body, want := range map[string]string{
		`{"Job":{"ID":"a","TaskGroups":[null]}}`:                             "Job.TaskGroups[0] is null",
		`{"Job":{"ID":"a","TaskGroups":[{"Tasks":[null]}]}}`:                 "Job.TaskGroups[0].Tasks[0] is null",
		`{"Job":{"ID":"a","Constraints":[null]}}`:                            "Job.Constraints[0] is null",
		`{"Job":{"ID":"a","TaskGroups":[{"Services":[null]}]}}`:              "Job.TaskGroups[0].Services[0] is null",
		`{"Job":{"ID":"a","TaskGroups":[{"Volumes":{"v":null}}]}}`:           `Job.TaskGroups[0].Volumes["v"] is null`,
		`{"Job":{"ID":"a","TaskGroups":[{"Tasks":[{"Templates":[null]}]}]}}`: "Templates[0] is null",
		`{"Job":null}`: "Job must be specified",
	} {
		for _, path := range []string{"/v1/jobs", "/v1/job/a", "/v1/job/a/plan", "/v1/validate/job"} {
			if resp, text := c.Ask("PUT", path, body); resp.StatusCode != 400 || !strings.Contains(text, want) {
				t.Errorf("%s %s: %d %.300s", path, body, resp.StatusCode, text)
			}
		}
	}
}

// TestHostileJobFilesAreGivenUpWithinTheirBudget sends job files that once
// overflowed the stack or used gigabytes, in both places where the parser evaluates
// expressions.
func TestHostileJobFilesAreGivenUpWithinTheirBudget(t *testing.T) {
	c := start(t)
	loop := "[for a in range(1000): [for b in range(1000): [for c in range(1000): a]]]"
	job := "job \"a\" {\n meta {\n x = VALUE\n }\n group \"g\" {\n task \"t\" {\n driver = \"raw_exec\"\n }\n }\n}\n"
	for name, value := range map[string]string{
		"splats": "a" + strings.Repeat("[*]", 200_000), "loops": "length(" + loop + ")", "steps": "a" + strings.Repeat(".b", 200_000),
	} {
		for where, req := range map[string]map[string]any{
			"JobHCL":    {"JobHCL": strings.Replace(job, "VALUE", value, 1)},
			"Variables": {"JobHCL": "variable \"v\" {}\n" + strings.Replace(job, "VALUE", `"x"`, 1), "Variables": "v = " + value},
		} {
			began := time.Now()
			resp, text := c.Ask("PUT", "/v1/jobs/parse", req)
			if resp.StatusCode != 400 || !strings.Contains(text, "Failed to parse job") {
				t.Errorf("%s in %s: %d %.300s", name, where, resp.StatusCode, text)
			}
			t.Logf("%s in %s: %s, %.100q", name, where, time.Since(began).Round(time.Millisecond), text)
		}
	}
	c.Must("PUT", "/v1/jobs", map[string]any{"Job": testkit.Job("after", 1)}, nil)
}
