// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client_test

import (
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func mustNew(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// echo answers with the request's line and token as a JSON string.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Nomad-Index", "7")
	w.Header().Set("X-Nomad-NextToken", "more")
	_, _ = io.WriteString(w, `"`+r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("X-Nomad-Token")+`"`)
})

func TestRequestsCarryParametersAndToken(t *testing.T) {
	srv := httptest.NewServer(echo)
	defer srv.Close()
	c := mustNew(t, client.Config{Address: srv.URL, Token: "secret", Namespace: "dev", Region: "eu"})
	var line string
	meta, err := c.Get(t.Context(), "/v1/x", &client.Query{Prefix: "a b", PerPage: 3, Reverse: true, WaitIndex: 5, WaitTime: 2 * time.Second}, &line)
	if err != nil {
		t.Fatal(err)
	}
	if want := "GET /v1/x?index=5&namespace=dev&per_page=3&prefix=a+b&region=eu&reverse=true&wait=2s secret"; line != want {
		t.Errorf("got  %s\nwant %s", line, want)
	}
	if meta.Index != 7 || meta.NextToken != "more" {
		t.Errorf("meta %+v", meta)
	}
}

func TestANullForAnObjectIsAnError(t *testing.T) {
	answer := "null"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
	defer srv.Close()
	c := mustNew(t, client.Config{Address: srv.URL})
	if _, err := c.AgentSelf(t.Context()); err == nil || !strings.Contains(err.Error(), "null") {
		t.Errorf("an agent that describes itself as null: %v", err)
	}
	if _, _, err := c.Job(t.Context(), "web", nil); err == nil {
		t.Error("a job that is null is no error")
	}
	if list, _, err := c.Nodes(t.Context(), nil); err != nil || len(list) != 0 {
		t.Errorf("a list that is null is %v, %v", list, err)
	}
	if d, _, err := c.JobDeployment(t.Context(), "web", nil); err != nil || d != nil {
		t.Errorf("the deployment of a job that has none is %v, %v", d, err)
	}
	answer = "[null]"
	if _, _, err := c.Nodes(t.Context(), nil); err == nil {
		t.Error("a node that is null is no error")
	}
	for _, answer = range []string{"{}", "[{}]"} {
		one, list := &model.PastDeployment{}, []*model.PastDeployment{}
		var out any = one
		if answer == "[{}]" {
			out = &list
		}
		if _, err := c.Get(t.Context(), "/v1/deployments", nil, out); err == nil || !strings.Contains(err.Error(), "empty") {
			t.Errorf("%s for a deployment: %v", answer, err)
		}
	}
}

func TestBasicAuthenticationIsOfTheEnvironmentOrTheAddress(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth()
		_, _ = io.WriteString(w, `"`+name+"/"+password+`"`)
	}))
	defer srv.Close()
	env := client.FromEnv(func(name string) string { return map[string]string{"NOMAD_HTTP_AUTH": "ada:se:cret"}[name] })
	for want, cfg := range map[string]client.Config{
		"ada/se:cret": {Address: srv.URL, HTTPAuth: env.HTTPAuth},
		"ada/":        {Address: srv.URL, HTTPAuth: "ada"},
		"bob/p w":     {Address: strings.Replace(srv.URL, "http://", "http://bob:p%20w@", 1), HTTPAuth: env.HTTPAuth},
		"/":           {Address: srv.URL},
	} {
		var got string
		if _, err := mustNew(t, cfg).Get(t.Context(), "/v1/x", nil, &got); err != nil || got != want {
			t.Errorf("got %q, want %q: %v", got, want, err)
		}
	}
	_, err := mustNew(t, client.Config{Address: "http://bob:hidden@127.0.0.1:1"}).Get(t.Context(), "/v1/x", nil, nil)
	if err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("an error shows the password: %v", err)
	}
}

func TestAUnixSocketIsAnAddress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: echo, ReadHeaderTimeout: time.Second}}
	srv.Start()
	defer srv.Close()
	var line string
	if _, err := mustNew(t, client.Config{Address: "unix://" + path}).Get(t.Context(), "/v1/x", nil, &line); err != nil || line != "GET /v1/x " {
		t.Errorf("got %q, %v", line, err)
	}
}

func TestTLSTrustsWhatItIsTold(t *testing.T) {
	srv := httptest.NewTLSServer(echo)
	defer srv.Close()
	if _, err := mustNew(t, client.Config{Address: srv.URL}).Get(t.Context(), "/", nil, nil); !errdefs.IsUnavailable(err) {
		t.Errorf("an unknown authority is not trusted: %v", err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := mustNew(t, client.Config{Address: srv.URL, CACert: ca}).Get(t.Context(), "/", nil, nil); err != nil {
		t.Errorf("its authority was named: %v", err)
	}
}

func TestDroverVariablesWinOverNomadOnes(t *testing.T) {
	for k, v := range map[string]string{"NOMAD_ADDR": "http://old:1", "DROVER_ADDR": "http://new:2", "NOMAD_TOKEN": "tok", "NOMAD_SKIP_VERIFY": "true"} {
		t.Setenv(k, v)
	}
	if cfg := client.FromEnv(os.Getenv); cfg.Address != "http://new:2" || cfg.Token != "tok" || !cfg.SkipVerify {
		t.Errorf("got %+v", cfg)
	}
}

func TestABadAddressSaysWhatToWrite(t *testing.T) {
	if _, err := client.New(client.Config{Address: "ftp://x"}); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "use http, https or unix") {
		t.Errorf("got %v", err)
	}
}

func TestJobIDsAreEscapedInPaths(t *testing.T) {
	var path string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.EscapedPath()
		_, _ = io.WriteString(w, "{}")
	}))
	defer srv.Close()
	if _, err := mustNew(t, client.Config{Address: srv.URL}).PlanJob(t.Context(), "a/b c", &api.JobPlanRequest{}); err != nil || path != "/v1/job/a%2Fb%20c/plan" {
		t.Errorf("got %s, %v", path, err)
	}
}

func TestWhatTheAgentDidNotActOnIsTold(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("X-Drover-Warning", "one")
		w.Header().Add("X-Drover-Warning", "two")
		w.WriteHeader(http.StatusNotFound)
	}))
	defer srv.Close()
	var told []string
	c := mustNew(t, client.Config{Address: srv.URL, Warn: func(text string) { told = append(told, text) }})
	if _, err := c.Get(t.Context(), "/v1/x", nil, nil); !errdefs.IsNotFound(err) {
		t.Fatalf("got %v", err)
	}
	if got := strings.Join(told, " "); got != "one two" {
		t.Errorf("told %q", got)
	}
}
