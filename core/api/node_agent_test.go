// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// aNode is an agent that is only a node: it says of each thing that it did it.
type aNode struct{ *fakeBackend }

func (aNode) Self() *api.AgentSelf { return &api.AgentSelf{Member: &api.AgentMember{Name: "own"}} }
func (aNode) Servers() []string    { return []string{"own"} }

func (aNode) SetServers(addresses []string) error {
	return errdefs.FailedPreconditionf("set %s", strings.Join(addresses, " and "))
}

func (aNode) Health() *api.AgentHealth {
	return &api.AgentHealth{Client: &api.HealthStatus{Ok: true, Message: "own"}}
}
func (aNode) Metrics(context.Context) *api.MetricsSummary {
	return &api.MetricsSummary{Timestamp: "own"}
}
func (aNode) NodeStats(context.Context, string) (any, error)         { return "own", nil }
func (aNode) NodeMeta(context.Context, string) (any, error)          { return "own", nil }
func (aNode) AllocChecks(context.Context, string) (any, error)       { return "own", nil }
func (aNode) NodeCluster(context.Context, string, bool) (any, error) { return "own", nil }

func (aNode) ApplyNodeMeta(_ context.Context, _ string, meta map[string]*string) (any, error) {
	return "own " + *meta["k"], nil
}
func (aNode) ListFiles(context.Context, string, string) ([]*model.FileInfo, error) {
	return []*model.FileInfo{{Name: "own"}}, nil
}
func (aNode) NodePlugins(context.Context, string) ([]*model.AgentPlugin, error) {
	return []*model.AgentPlugin{{Name: "own"}}, nil
}

func TestAnAgentThatIsOnlyANodeAnswersForItselfAndHandsOnTheRest(t *testing.T) {
	servers := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // the test compares it
		fmt.Fprintf(w, "servers %s %s %s", r.Method, r.URL.RequestURI(), body)
	})
	s := api.NewNode(aNode{&fakeBackend{}}, func(id string) bool { return id == "mine" }, servers, hclog.NewNullLogger(), api.Config{})
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	other := "0" + uuid[1:]
	for _, c := range []struct {
		method, path, body string
		own                bool
	}{
		{"GET", "/v1/agent/self", "", true},
		{"GET", "/v1/agent/servers", "", true},
		{"GET", "/v1/agent/health", "", true},
		{"GET", "/v1/metrics", "", true},
		{"GET", "/v1/client/stats", "", true},
		{"GET", "/v1/client/stats?node_id=" + uuid, "", true},
		{"GET", "/v1/client/stats?node_id=" + other, "", false},
		{"GET", "/v1/client/metadata", "", true},
		{"PUT", "/v1/client/metadata", `{"Meta":{"k":"v"}}`, true},
		{"PUT", "/v1/client/metadata", `{"NodeID":"` + uuid + `","Meta":{"k":"v"}}`, true},
		{"PUT", "/v1/client/metadata", `{"NodeID":"` + other + `","Meta":{"k":"v"}}`, false},
		{"PUT", "/v1/client/metadata?node_id=" + other, `{"Meta":{"k":"v"}}`, false},
		{"GET", "/v1/client/allocation/mine/checks", "", true},
		{"GET", "/v1/client/allocation/other/checks", "", false},
		{"GET", "/v1/client/fs/ls/mine?path=/", "", true},
		{"GET", "/v1/client/fs/ls/other?path=/", "", false},
		{"GET", "/v1/agent/plugins", "", true},
		{"GET", "/v1/agent/plugins?node_id=" + other, "", false},
		{"GET", "/v1/agent/monitor?node_id=" + other, "", false},
		{"GET", "/v1/agent/monitor?server_id=leader", "", false},
		{"GET", "/v1/agent/members", "", false},
		{"PUT", "/v1/agent/join?address=x", "", false},
		{"GET", "/v1/status/leader", "", false},
		{"PUT", "/v1/jobs", `{"Job":{}}`, false},
		{"GET", "/v1/event/stream?topic=Job", "", false},
		{"DELETE", "/v1/job/a?purge=true", "", false},
		{"GET", "/v1/nonsense", "", false},
	} {
		r, answer := ask(t, web, c.method, c.path, c.body)
		handed := fmt.Sprintf("servers %s %s %s", c.method, c.path, c.body)
		if c.own && (r.StatusCode != 200 || !strings.Contains(answer, "own")) || !c.own && answer != handed {
			t.Errorf("%s %s: %s %s", c.method, c.path, r.Status, answer)
		}
	}
}

func TestTheServersOfANodeAreSetAtItsOwnAgent(t *testing.T) {
	s := api.NewNode(aNode{&fakeBackend{}}, nil, http.NotFoundHandler(), hclog.NewNullLogger(), api.Config{})
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	for query, want := range map[string]string{"?address=a:1&address=b:2": "set a:1 and b:2", "": "missing server address"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, web.URL+"/v1/agent/servers"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode/100 == 2 || !strings.Contains(string(answer), want) {
			t.Errorf("%q: %s %q, %v", query, r.Status, answer, err)
		}
	}
}
