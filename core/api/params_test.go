// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

// values are what a parameter may be, where "1" is not.
var values = map[string]string{
	"wait": "10ms", "filter": "ID is not empty", "node_id": "", "server_id": "", "diff_tag": "", "type": "stdout", "choose": "1|k",
	"allocID": uuid, "command": `["a"]`, "topic": "Job", "log_level": "info", "logs_since": "1h", "origin": "start", "group": "g", "next_token": "",
	"algo": model.RootKeyAlgorithm, "algorithm": model.RootKeyAlgorithm, "config": "{}", "digest": "sha256:x", "prefix": "",
	"on_disk": "false", "max_stale": "1h", "index": "0", "publish_time": "",
}

// bodies are those without which a write ends before it looks at its parameters.
var bodies = map[string]string{
	"PUT /v1/jobs/parse": `{"JobHCL":"job \"a\" {}"}`, "PUT /v1/var/{path...}": `{"Items":{"k":"v"}}`,
	"PUT /v1/client/metadata": `{"Meta":{"k":"v"}}`, "PUT /v1/registry/plugin/{name}": `{"Name":"a"}`,
	"PUT /v1/search/fuzzy": `{"Text":"abc"}`, "PUT /v1/agent/plugin/{name}/{action}": "file",
}

// examples are path values.
var examples = map[string]string{"{kind}": "heap", "{action}": "install", "{path...}": "a", "{name}": "a", "{id}": "a"}

func filled(name string) (method, path string) {
	method, path, _ = strings.Cut(name, " ")
	switch {
	case strings.HasPrefix(path, "/v1/job/"):
	case strings.Contains(path, "alloc"), strings.Contains(path, "/evaluation/"), strings.Contains(path, "/deployment/"), strings.Contains(path, "/node/{id}"), strings.Contains(path, "/fs/"):
		path = strings.ReplaceAll(path, "{id}", uuid)
	}
	path = regexp.MustCompile(`\{[^}]*\}`).ReplaceAllStringFunc(path, func(v string) string {
		if e, ok := examples[v]; ok {
			return e
		}
		return "a"
	})
	return method, path
}

// willing is a backend that does what it is asked.
type willing struct{ *fakeBackend }

func (willing) Health() *api.AgentHealth                                          { return &api.AgentHealth{} }
func (willing) SigningKeys(context.Context, bool) ([]*model.JWK, error)           { return nil, nil }
func (willing) Host(context.Context) (*api.HostReport, error)                     { return &api.HostReport{}, nil }
func (willing) UpsertNamespace(context.Context, *model.Namespace) (uint64, error) { return 1, nil }
func (willing) UpsertNodePool(context.Context, *model.NodePool) (uint64, error)   { return 1, nil }
func (willing) DrainNode(context.Context, *api.NodeDrainRequest) (*api.NodeDrainResponse, error) {
	return &api.NodeDrainResponse{}, nil
}
func (willing) SetNodeEligibility(context.Context, *api.NodeEligibilityRequest) (*api.NodeEligibilityResponse, error) {
	return &api.NodeEligibilityResponse{}, nil
}
func (willing) SetSchedulerConfig(context.Context, *model.SchedulerConfiguration, *uint64) (bool, uint64, error) {
	return true, 1, nil
}

func everything() *fakeView {
	v := oneAlloc()
	v.jobs = append(v.jobs, &model.Job{Namespace: "default", ID: "a", Version: 1, Type: "service"})
	v.evals = []*model.Evaluation{{ID: uuid, Namespace: "default"}}
	v.deployments = []*model.Deployment{{ID: uuid, Namespace: "default"}}
	v.nodes = []*model.Node{{ID: uuid}}
	v.namespaces = []*model.Namespace{{Name: "a"}}
	v.pools = []*model.NodePool{{Name: "a"}}
	v.plugins = []*model.PluginSpec{{Name: "a", Release: &model.PluginRelease{}, Rollout: &model.PluginRollout{}}}
	v.config = &model.SchedulerConfiguration{}
	v.volumes, v.claims = []*model.HostVolume{{ID: uuid, Namespace: "default"}}, []*model.VolumeClaim{{ID: uuid, Namespace: "default"}}
	v.csi, v.drivers = []*model.CSIVolume{{ID: "a", Namespace: "default", PluginID: "a"}}, []*model.CSIPlugin{{ID: "a"}}
	return v
}

func call(t *testing.T, h http.Handler, method, target, body string, told func(string)) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(api.ToldOfReads(t.Context(), told), method, target, strings.NewReader(body))
	req.Host = here
	if body == "file" {
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec
}

func TestEveryRouteReadsTheParametersThatItDeclares(t *testing.T) {
	h := api.New(willing{newBackend(everything())}, hclog.NewNullLogger(), api.Config{EnableDebug: true, AgentOf: func(string) (http.Handler, error) { return nil, nil }}).Handler()
	for name, row := range api.RouteParams() {
		if name == "GET /v1/event/stream" { // its parameters have tests of their own: it ends with its client
			continue
		}
		method, path := filled(name)
		q := url.Values{}
		declared := strings.Fields(row)
		for _, p := range declared {
			p = strings.TrimPrefix(p, "~")
			v, ok := values[p]
			if !ok {
				v = "1"
			}
			if name == "GET /v1/agent/monitor/export" && p == "service_name" {
				v = "drover"
			}
			q.Set(p, v)
		}
		read := map[string]bool{}
		body := bodies[name]
		if body == "" && method != http.MethodGet {
			body = "{}"
		}
		ask := func(q url.Values) {
			rec := call(t, h, method, path+"?"+q.Encode(), body, func(p string) { read[p] = true })
			if said := rec.Header().Values("X-Drover-Warning"); len(said) > 0 {
				t.Errorf("%s: a declared parameter is named as not acted on: %v", name, said)
			}
		}
		ask(q)
		for p := range q { // some exclude each other
			ask(url.Values{p: q[p]})
		}
		for _, p := range declared {
			if !strings.HasPrefix(p, "~") && !read[p] {
				t.Errorf("%s declares %q and does not read it", name, p)
			}
		}
	}
}

// What a route does not declare is taken out of the request, so none can be read in
// secret; what is declared is read as above. That holds while all of core/api reads
// parameters in one way.
func TestParametersAreReadInOnePlace(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	ways := regexp.MustCompile(`\.URL\.Query\(\)|FormValue\(|ParseForm\(|RawQuery`)
	allowed := map[string]int{"params.go": 3, "door.go": 2, "respond.go": 1, "inspect.go": 1}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(ways.FindAll(src, -1)); n != allowed[f] {
			t.Errorf("%s reads the query of requests in %d places, want %d: use paramsOf, and declare the parameter in the row of the route", f, n, allowed[f])
		}
	}
}

func TestParametersOfTheReferencesClientsAreActedOnOrNamed(t *testing.T) {
	lines, err := os.ReadFile(filepath.Join("testdata", "requests.txt"))
	if err != nil {
		t.Fatal(err)
	}
	h := api.New(willing{newBackend(everything())}, hclog.NewNullLogger(), api.Config{}).Handler()
	for line := range strings.Lines(string(lines)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		request, names, _ := strings.Cut(line[2:], "|")
		method, target, _ := strings.Cut(request, " ")
		rec := call(t, h, method, target, "{}", func(string) {})
		said := named(rec)
		switch line[0] {
		case '!':
			if rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), "nothing was done") && !strings.Contains(target, "%zz") {
				t.Errorf("%s: got %d %s, want it refused", request, rec.Code, rec.Body)
			}
		default:
			if strings.Join(said, " ") != names || strings.Contains(rec.Body.String(), "not a parameter of") {
				t.Errorf("%s: got warnings about %q and %d %.120s, want them about %q", request, said, rec.Code, rec.Body, names)
			}
		}
	}
}

// named are the parameters that an answer's warnings name.
func named(rec *httptest.ResponseRecorder) (out []string) {
	for _, text := range rec.Header().Values("X-Drover-Warning") {
		if rest, ok := strings.CutPrefix(text, "parameter "); ok {
			name, _, _ := strings.Cut(rest, " ")
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func TestParametersOfRecordedRequestsAreActedOn(t *testing.T) {
	h := api.New(willing{newBackend(everything())}, hclog.NewNullLogger(), api.Config{}).Handler()
	// The reference has no such parameter either: it refuses the request.
	known := []string{"lock-operation"}
	for _, folder := range []string{"http", "http-acl", "http-services", "http-volumes", "http-cluster"} {
		for _, r := range recordsIn(t, folder) {
			if !strings.Contains(r.Request.Path, "?") || strings.Contains(r.Request.Path, "/event/stream") {
				continue
			}
			rec := call(t, h, r.Request.Method, r.Request.Path, "{}", func(string) {})
			for _, name := range named(rec) {
				if !slices.Contains(known, name) {
					t.Errorf("%s/%s: %s %s: %q is not acted on", folder, r.name, r.Request.Method, r.Request.Path, name)
				}
			}
			if strings.Contains(rec.Body.String(), "not a parameter of") {
				t.Errorf("%s/%s: %s %s: %s", folder, r.name, r.Request.Method, r.Request.Path, rec.Body)
			}
		}
	}
}

func TestFieldsOfABodyThatNobodyReadsAreNamedOrRefused(t *testing.T) {
	h := api.New(willing{newBackend(everything())}, hclog.NewNullLogger(), api.Config{}).Handler()
	for _, c := range []struct {
		request, body string
		status        int    // 0: any
		said          string // in a warning or in the refusal
	}{
		{"PUT /v1/jobs", `{"Job":{"ID":"a"},"Colour":"red"}`, 200, "field Colour of the body is not acted on"},
		{"PUT /v1/jobs", `{"Job":{"ID":"a"},"Region":"","SecretID":null,"Colour":""}`, 200, ""},
		{"PUT /v1/jobs", `{"job":{"ID":"a"},"enforceindex":false}`, 200, ""},
		{"PUT /v1/jobs", `{"Job":{"ID":"a"},"PolicyOverride":true}`, 200, "PolicyOverride is not acted on: this cluster has no policies for jobs that could be overridden"},
		{"PUT /v1/jobs", `{"Job":{"ID":"a"},"DryRun":true}`, 400, "the field DryRun is not known to this request, so nothing was done: leave it out"},
		{"GET /v1/agent/health?type=foo", "", 400, `unknown type "foo"; an agent is a client, a server or both`},
		{"GET /v1/metrics?format=promethus", "", 400, `unknown format "promethus"; use prometheus, or leave it out for JSON`},
		{"PUT /v1/jobs", `{"Job":{"ID":"a"}} {"Job":{"ID":"b"}}`, 400, "the request body has more after its JSON value; send one value"},
		{"PUT /v1/jobs/parse", `{"JobHCL":"x","hclv1":true}`, 400, "job files of HCL version 1 are not read; write the job in HCL2 and leave hclv1 out"},
		{"PUT /v1/node/" + uuid + "/drain", `{"DrainSpec":{"Deadline":1,"IgnoreSystemJobs":true,"Speed":3}}`, 0, "field DrainSpec.Speed of the body is not acted on"},
		{"PUT /v1/node/" + uuid + "/eligibility", `{"Eligibility":"eligible","Force":true}`, 400, "the field Force is not known to this request, so nothing was done: leave it out"},
		{"PUT /v1/namespace", `{"Name":"a","Hash":"x","Colour":"red"}`, 0, "field Colour of the body is not acted on"},
		{"PUT /v1/node/pools", `{"Name":"a","NodeIdentityTTL":"1h","SchedulerConfiguration":{"SchedulerAlgoritm":"spread"}}`, 0, "field SchedulerConfiguration.SchedulerAlgoritm of the body is not acted on"},
		{"PUT /v1/operator/scheduler/configuration", `{"SchedulerAlgorithm":"spread","PreemptionConfig":{"BatchSchedulerEnbled":true}}`, 0, "field PreemptionConfig.BatchSchedulerEnbled of the body is not acted on"},
		{"PUT /v1/operator/scheduler/configuration", `{"PreemptionConfig":{"SystemSchedulerEnabled":true,"SysBatchSchedulerEnabled":true,"BatchSchedulerEnabled":true,"ServiceSchedulerEnabled":true},"MemoryOversubscriptionEnabled":true,"RejectJobRegistration":true,"PauseEvalBroker":true}`, 0, ""},
		{"PUT /v1/operator/scheduler/configuration", `{"NodeLimitForFeasibilityChecks":9}`, 0, "NodeLimitForFeasibilityChecks is not acted on: every feasible node is looked at"},
		{"PUT /v1/namespace", `{"Name":"a","Quota":"small"}`, 400, `the quota "small" of namespace "a" cannot be kept: there are no quotas yet, so its jobs could use everything; remove it`},
		{"PUT /v1/namespace", `{"Name":"a","Quota":"","VaultConfiguration":{"Default":"v"},"ConsulConfiguration":{}}`, 0,
			"VaultConfiguration is not acted on: jobs get no tokens of Vault; ConsulConfiguration is not acted on: services and tasks of the namespace may use every Consul cluster that nodes reach"},
	} {
		method, target, _ := strings.Cut(c.request, " ")
		rec := call(t, h, method, target, c.body, func(string) {})
		said := strings.Join(rec.Header().Values("X-Drover-Warning"), "; ")
		if c.status == 400 {
			said = rec.Body.String()
		}
		if said != c.said || c.status != 0 && rec.Code != c.status {
			t.Errorf("%s %s: got %d, said %q; want %d, %q", c.request, c.body, rec.Code, said, c.status, c.said)
		}
	}
}

func TestAServiceIsChosenByKeyAndTheChoiceIsStable(t *testing.T) {
	v := &fakeView{index: 9}
	for _, id := range []string{"1", "2", "3", "4", "5"} {
		v.services = append(v.services, &model.ServiceRegistration{ID: "_nomad-task-" + id, ServiceName: "web", Namespace: "default", JobID: "a", AllocID: id})
	}
	srv := serve(t, newBackend(v))
	pick := func(choose string) (ids string) {
		_, body := ask(t, srv, "GET", "/v1/service/web?choose="+url.QueryEscape(choose), "")
		for _, r := range decode[[]*model.ServiceRegistration](t, body) {
			ids += r.AllocID
		}
		return ids
	}
	seen := map[string]bool{}
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		two, again := pick("2|"+key), pick("2|"+key)
		if len(two) != 2 || two != again {
			t.Errorf("key %s: got %q and %q, want the same two", key, two, again)
		}
		if !strings.ContainsAny(pick("3|"+key), two) {
			t.Errorf("key %s: more places leave out those of fewer", key)
		}
		seen[two] = true
	}
	if len(seen) < 2 {
		t.Error("all keys choose the same places")
	}
	if got := pick("9|x"); got != "12345" {
		t.Errorf("more than there are: got %q, want all", got)
	}
	for _, bad := range []string{"x", "0|a", "-1|a", "1|a|b"} {
		resp, body := ask(t, srv, "GET", "/v1/service/web?choose="+url.QueryEscape(bad), "")
		if resp.StatusCode != 400 || body != "failed to choose services: Parameter for choose must be in form '<number>|<key>'" {
			t.Errorf("choose=%s: got %d %q", bad, resp.StatusCode, body)
		}
	}
}
