// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/api"
)

func TestTheLimitsOfFuzzySearchesAreTheOperators(t *testing.T) {
	ask := func(limits api.SearchLimits, text string) (int, string) {
		t.Helper()
		srv := serveAPI(t, api.New(newBackend(oneAlloc()), hclog.NewNullLogger(), api.Config{Search: limits}))
		resp, err := srv.Client().Post(srv.URL+"/v1/search/fuzzy", "application/json", strings.NewReader(`{"Text":"`+text+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	for text, want := range map[string]struct {
		limits api.SearchLimits
		code   int
		body   string
	}{
		"a":   {api.SearchLimits{}, http.StatusInternalServerError, "at least 2 characters, got 1"},
		"eb":  {api.SearchLimits{}, http.StatusOK, `"web.g[0]"`},
		"we":  {api.SearchLimits{ShortTerm: 3}, http.StatusInternalServerError, "at least 3 characters, got 2"},
		"e":   {api.SearchLimits{ShortTerm: 1}, http.StatusOK, `"web.g[0]"`},
		"abc": {api.SearchLimits{NoFuzzy: true}, http.StatusInternalServerError, "fuzzy_enabled = false"},
	} {
		if code, body := ask(want.limits, text); code != want.code || !strings.Contains(body, want.body) {
			t.Errorf("%s with %+v: %d %s", text, want.limits, code, body)
		}
	}
}

// The contexts whose objects are found by their ids are there without a match, too; those
// of names are not.
func TestAFuzzySearchHasTheRecordedContextsWhenNothingMatches(t *testing.T) {
	srv := serve(t, newBackend(oneAlloc()))
	_, body := ask(t, srv, "POST", "/v1/search/fuzzy", `{"Text":"nothing like it","Context":"all"}`)
	matches := decode[api.FuzzyResponse](t, body).Matches
	for _, kind := range []string{"evals", "deployment", "volumes", "host_volumes", "scaling_policy"} {
		if list, there := matches[kind]; !there || list == nil || len(list) > 0 {
			t.Errorf("%s: %v", kind, list)
		}
		delete(matches, kind)
	}
	if len(matches) > 0 {
		t.Errorf("there are also %v", matches)
	}
}
