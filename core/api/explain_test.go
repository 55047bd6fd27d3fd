// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// explaining answers each request for an explanation with what was asked for.
type explaining struct{ *fakeBackend }

func explained(what, id string) (*model.Explanation, error) {
	if id == "absent" {
		return nil, errdefs.NotFoundf("%s not found", what)
	}
	return &model.Explanation{ID: id, Says: []string{"about " + what}}, nil
}

func (explaining) ExplainJob(_ context.Context, ns, id string) (*model.Explanation, error) {
	return explained("job of "+ns, id)
}

func (explaining) ExplainEval(_ context.Context, id string) (*model.Explanation, error) {
	return explained("eval", id)
}

func (explaining) ExplainAlloc(_ context.Context, id string) (*model.Explanation, error) {
	return explained("alloc", id)
}

func (explaining) ExplainNode(_ context.Context, id string) (*model.Explanation, error) {
	return explained("node", id)
}

func (explaining) ExplainDeployment(_ context.Context, id string) (*model.Explanation, error) {
	return explained("deployment", id)
}

func TestEachKindOfObjectIsExplainedByItsRoute(t *testing.T) {
	srv := serveAPI(t, api.New(explaining{newBackend(oneAlloc())}, hclog.NewNullLogger(), api.Config{}))
	for path, what := range map[string]string{
		"/v1/job/%/explain?namespace=ns": "job of ns", "/v1/job/%/explain": "job of default", "/v1/evaluation/%/explain": "eval",
		"/v1/allocation/%/explain": "alloc", "/v1/node/%/explain": "node", "/v1/deployment/explain/%": "deployment",
	} {
		resp, body := ask(t, srv, "GET", strings.Replace(path, "%", "x", 1), "")
		if x := decode[model.Explanation](t, body); resp.StatusCode != http.StatusOK || x.ID != "x" || len(x.Says) != 1 || x.Says[0] != "about "+what {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
		resp, body = ask(t, srv, "GET", strings.Replace(path, "%", "absent", 1), "")
		if resp.StatusCode != http.StatusNotFound || !strings.Contains(string(body), what+" not found") {
			t.Errorf("%s of what is not there: %d %s", path, resp.StatusCode, body)
		}
		if resp, _ = ask(t, srv, "PUT", strings.Replace(path, "%", "x", 1), "{}"); resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("PUT %s: %d", path, resp.StatusCode)
		}
	}
}

// directing has one alloc whose tasks have schedules.
type directing struct {
	*fakeBackend
	asked []string
}

func (d *directing) DirectAlloc(_ context.Context, _, task, state string) (map[string]model.TaskScheduleNow, error) {
	d.asked = append(d.asked, task+"="+state)
	out := map[string]model.TaskScheduleNow{"a": {State: "pause", Paused: model.PausedByOperator}}
	if task == "" {
		out["b"] = model.TaskScheduleNow{State: "scheduled"}
	}
	return out, nil
}

func TestTheScheduleOfATaskIsReadAndChanged(t *testing.T) {
	view := oneAlloc()
	d := &directing{fakeBackend: newBackend(view)}
	srv := serveAPI(t, api.New(d, hclog.NewNullLogger(), api.Config{}))
	path := "/v1/client/allocation/" + view.allocs[0].ID + "/pause"
	for _, c := range []struct {
		method, path, body string
		code               int
		state              string
	}{
		{"GET", path + "?task=a", "", http.StatusOK, model.PausedByOperator},
		{"GET", path, "", http.StatusOK, ""}, // they differ
		{"PUT", path, `{"Task":"a","ScheduleState":"pause"}`, http.StatusOK, model.PausedByOperator},
		{"POST", path, `{"Task":"a","ScheduleState":"pause"}`, http.StatusOK, model.PausedByOperator},
		{"PUT", path, `{"Task":"a","ScheduleState":"sleep"}`, http.StatusBadRequest, ""},
		{"PUT", path, `{"Task":"a"}`, http.StatusBadRequest, ""},
	} {
		resp, body := ask(t, srv, c.method, c.path, c.body)
		if resp.StatusCode != c.code {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, resp.StatusCode, body)
			continue
		}
		if c.code == http.StatusOK && decode[api.AllocPause](t, body).ScheduleState != c.state {
			t.Errorf("%s %s: %s, want %q", c.method, c.path, body, c.state)
		}
	}
	if got := strings.Join(d.asked, " "); got != "a= = a=pause a=pause" {
		t.Errorf("the node was asked %q", got)
	}
}
