// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// warningHeader carries the warnings about parts of a request that have no effect, one
// per value. The reference's clients ignore unknown headers.
const warningHeader = "X-Drover-Warning"

// conditions are parameters that make a write conditional or change its extent. A
// route that does not support one rejects it; otherwise the client would be wrong
// about what was done.
var conditions = []string{"all", "cas", "check_index", "detach", "dry-run", "dry_run", "enforce_index", "force", "full", "global",
	"lock-acquire", "lock-id", "lock-release", "lock-renew", "no_shutdown_delay", "prune", "publish_time", "purge", "reschedule"}

// The parameters that a route takes, by name. A parameter that its row does not list
// causes a warning, or an error if it makes a write conditional. One that ends with ? is
// a boolean of a read. One that begins with ~ is accepted although nothing reads it,
// because the answer is correct with and without it; the comment beside the row says
// why. A test checks that the others are read.
const (
	everywhere = "region namespace pretty"
	reads      = "index wait stale consistent max_stale"
	pages      = reads + " filter per_page next_token reverse"
	lists      = pages + " prefix"
	agents     = "node_id server_id"
	anything   = "*" // the route rejects every request
	nothing    = ""
)

// manyTimes are the parameters that may be given more than once.
var manyTimes = []string{"address", "topic"}

// params are the parameters of a request. All code in core/api reads parameters here.
type params struct {
	r      *http.Request
	values url.Values
}

func paramsOf(r *http.Request) params { return params{r: r, values: r.URL.Query()} }

// readKey is the context key of a func(string) that is called with each parameter that
// is read: a test compares these with the parameters that the route declares.
type readKey struct{}

func (p params) all(name string) []string {
	if told, ok := p.r.Context().Value(readKey{}).(func(string)); ok {
		told(name)
	}
	return p.values[name]
}

func (p params) get(name string) string {
	if list := p.all(name); len(list) > 0 {
		return list[0]
	}
	return ""
}

func (p params) has(name string) bool { return p.all(name) != nil }

func (s *Server) warn(w http.ResponseWriter, route, text string) {
	s.log.Debug("a part of a request is not acted on", "route", route, "warning", text)
	w.Header().Add(warningHeader, text)
}

// settle compares the parameters of a request with the parameters of its route. The
// returned request contains only declared parameters, so handlers cannot read others.
func (rt *route) settle(r *http.Request) (*http.Request, []string, error) {
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, nil, fail(http.StatusBadRequest, "the query of the request cannot be read: "+err.Error())
	}
	write := rt.verb != get
	var unknown, warnings []string
	for name, values := range given {
		switch {
		case !rt.params[name] && write && slices.Contains(conditions, name):
			return nil, nil, fail(http.StatusBadRequest, quoteName(name)+" is not a parameter of "+rt.name()+", so nothing was done: leave it out")
		case !rt.params[name]:
			unknown = append(unknown, name)
			warnings = append(warnings, "parameter "+quoteName(name)+" is not acted on by "+rt.name())
		case len(values) > 1 && !slices.Contains(manyTimes, name):
			warnings = append(warnings, "parameter "+quoteName(name)+" was given more than once; the first is acted on")
		}
	}
	slices.Sort(warnings)
	if len(unknown) == 0 {
		return r, warnings, nil
	}
	return without(r, unknown...), warnings[:min(len(warnings), maxWarnings)], nil
}

// without returns the request without some of its parameters.
func without(r *http.Request, names ...string) *http.Request {
	values := paramsOf(r).values
	for _, name := range names {
		values.Del(name)
	}
	r = r.WithContext(r.Context())
	u := *r.URL
	u.RawQuery = values.Encode()
	r.URL = &u
	return r
}

// Limits of the warnings about a request.
const (
	maxWarnings   = 16
	maxQuotedName = 64 // bytes
)

// quoteName makes a name that a client chose safe for a header.
func quoteName(name string) string {
	if len(name) > maxQuotedName {
		name = cutText(name, maxQuotedName) + "..."
	}
	return strings.Trim(url.QueryEscape(name), " ")
}

// notesKey is the context key of a request's notes.
type notesKey struct{}

// notes collects warnings about parts of a request that have no effect. It is used by
// one goroutine.
type notes struct{ texts []string }

func withNotes(ctx context.Context) (context.Context, *notes) {
	n := &notes{}
	return context.WithValue(ctx, notesKey{}, n), n
}

// note adds a warning to the answer.
func note(r *http.Request, text string) {
	if n, ok := r.Context().Value(notesKey{}).(*notes); ok && len(n.texts) < maxWarnings {
		n.texts = append(n.texts, text)
	}
}
