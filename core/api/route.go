// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/state"
)

// row is one row of the table of routes: one verb of one path.
type row struct {
	verb string // get also serves HEAD, put also POST
	path string // as for http.ServeMux, except that the id of a job may contain slashes
	// needs is the capability that a request needs, with the names of the reference:
	// "a,b" needs both, "a|b" one of them. Nothing checks it yet.
	needs string
	takes string // parameters; see params.go
	does  *action
}

// Verbs of a row.
const (
	get     = http.MethodGet
	put     = http.MethodPut
	del     = http.MethodDelete
	anyVerb = "ANY" // every method, even an unknown one
)

// What a row may need instead of a capability in a namespace.
const (
	anonymous  = "anonymous"  // no token is needed
	management = "management" // only a management token will do
)

// handler answers one request. A nil value means an empty body. An error without a
// status gets one from its class.
type handler func(s *Server, w http.ResponseWriter, r *http.Request) (any, error)

// action is the work of a route: it either reads the state (begin is set; see read.go) or
// handles the request in any other way (handle is set).
type action struct {
	handle handler

	begin  func(r *http.Request, q *query) (look, error)
	tables []string                   // tables that it reads; the index of the answer follows from them
	keys   func(q *query) []state.Key // the keys that end a blocking query's wait; nil: any change of the tables

	at     place // which server answers
	limit  int64 // maximum size of the body in bytes
	stream bool  // the answer comes in pieces, which a compressor would delay
	acts   bool  // a GET that changes something, for clients of the reference
}

// act is the action of a route that does not answer from a View.
func act(h handler) *action { return &action{handle: h, limit: maxBodyBytes} }

// upTo sets the maximum size of the body.
func (a *action) upTo(bytes int64) *action { a.limit = bytes; return a }

// streams marks an action whose answer comes in pieces.
func (a *action) streams() *action { a.stream = true; return a }

// changes marks a GET that changes something.
func (a *action) changes() *action { a.acts = true; return a }

// route is a row with its parameters in parsed form.
type route struct {
	row
	params map[string]bool
	flags  []string // the boolean parameters that a read checks
	stale  bool     // any server answers if the client asks for it
	any    bool     // accepts any parameters because it rejects every request
}

func (rt *route) name() string { return rt.verb + " " + rt.path }

func newRoute(r row) *route {
	rt := &route{row: r, params: map[string]bool{}, any: r.takes == anything}
	for _, param := range strings.Fields(everywhere + " " + r.takes) {
		name, flag := strings.CutSuffix(strings.TrimPrefix(param, "~"), "?")
		rt.params[name] = true
		rt.stale = rt.stale || param == "stale"
		if flag {
			rt.flags = append(rt.flags, name)
		}
	}
	return rt
}

// verbs are the routes of one path.
type verbs map[string]*route

// pick returns the route of a method; nil: the path does not have it.
func (v verbs) pick(method string) *route {
	switch method {
	case http.MethodHead:
		method = get
	case http.MethodPost: // clients use either
		method = put
	}
	if rt := v[method]; rt != nil {
		return rt
	}
	return v[anyVerb]
}

// byPath groups rows by their path.
func byPath(rows []row) map[string]verbs {
	out := map[string]verbs{}
	for _, r := range rows {
		if out[r.path] == nil {
			out[r.path] = verbs{}
		}
		out[r.path][r.verb] = newRoute(r)
	}
	return out
}

// pathsOf returns the paths of the actions that have a property, by which a request is
// recognized before it is routed.
func pathsOf(has func(*action) bool) (out []ends) {
	for _, r := range allRoutes() {
		if !has(r.does) {
			continue
		}
		head, rest, open := strings.Cut(r.path, "{")
		out = append(out, ends{head: head, tail: rest[strings.LastIndexByte(rest, '}')+1:], open: open})
	}
	return out
}

// ends are the constant beginning and end of a path; if it is open, anything may be
// between them.
type ends struct {
	head, tail string
	open       bool
}

func (e ends) match(path string) bool {
	if !e.open {
		return path == e.head
	}
	return strings.HasPrefix(path, e.head) && strings.HasSuffix(path, e.tail)
}

func matchAny(list []ends, path string) bool {
	return slices.ContainsFunc(list, func(e ends) bool { return e.match(path) })
}
