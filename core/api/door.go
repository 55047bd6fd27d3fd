// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"
	"net/url"
	"strings"
)

// mount makes a mux serve the rows. Every request passes the door to its row.
func (s *Server) mount(mux *http.ServeMux, rows []row) {
	paths := byPath(rows)
	mux.HandleFunc("/", unknownRoute)
	if paths[jobPath] != nil {
		mux.HandleFunc(jobPrefix+"{rest...}", s.door(jobPaths(paths).find))
	}
	// The mux sees a conflict between a node and a node called "pool". Ids of nodes are
	// UUIDs, so there is none.
	pools, nodes := http.NewServeMux(), http.NewServeMux()
	for _, sub := range []*http.ServeMux{pools, nodes} {
		sub.HandleFunc("/", unknownRoute)
	}
	mux.HandleFunc(nodePrefix, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, poolPrefix) {
			pools.ServeHTTP(w, r)
			return
		}
		nodes.ServeHTTP(w, r)
	})
	for path, of := range paths {
		to := mux
		switch {
		case strings.HasPrefix(path, jobPrefix):
			continue
		case strings.HasPrefix(path, poolPrefix):
			to = pools
		case strings.HasPrefix(path, nodePrefix+"{"):
			to = nodes
		}
		to.HandleFunc(path, s.door(func(*http.Request) (verbs, error) { return of, nil }))
	}
}

func unknownRoute(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }

// door is the way of every request, read or write, to its route: region, verb, limit of
// the body, parameters, the server that answers it, and then what the route does. The rules for browsers and the
// deadlines of bodies come before it, because they also hold for requests that a node's
// agent passes on to a server.
func (s *Server) door(find func(*http.Request) (verbs, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if region := r.URL.Query().Get("region"); region != "" && region != s.local.Region() {
			writeError(w, http.StatusInternalServerError, "No path to region")
			return
		}
		ctx, notes := withNotes(r.Context())
		v, err := s.enter(w, r.WithContext(ctx), find)
		for _, text := range notes.texts {
			s.warn(w, r.Method+" "+r.URL.Path, text)
		}
		s.answer(w, r, v, err)
	}
}

func (s *Server) enter(w http.ResponseWriter, r *http.Request, find func(*http.Request) (verbs, error)) (any, error) {
	of, err := find(r)
	if err != nil {
		return nil, err
	}
	rt := of.pick(r.Method)
	if rt == nil {
		return nil, errMethod
	}
	if r.Body != nil {
		r.Body = http.MaxBytesReader(w, r.Body, rt.does.limit)
	}
	r, err = s.settled(w, r, rt)
	if err != nil {
		return nil, err
	}
	return s.placed(w, r, rt)
}

// settled applies the rules about parameters to a request.
func (s *Server) settled(w http.ResponseWriter, r *http.Request, rt *route) (*http.Request, error) {
	if r.URL.RawQuery == "" || rt.any {
		return r, nil
	}
	r, warnings, err := rt.settle(r)
	for _, text := range warnings {
		s.warn(w, rt.name(), text)
	}
	return r, err
}

// Beginnings of paths that http.ServeMux cannot tell apart by itself.
const (
	jobPrefix  = "/v1/job/"
	jobPath    = jobPrefix + "{id}"
	tagPath    = jobPath + "/versions/{name}/tag"
	nodePrefix = "/v1/node/"
	poolPrefix = nodePrefix + "pool/"
)

// jobPaths are the routes below /v1/job/. Ids of jobs may contain slashes, so a path is
// parsed from its end.
type jobPaths map[string]verbs

// find parses the escaped path, so that a%2Fplan is the job "a/plan" and not the plan of
// the job "a". It sets the path values id and name.
func (paths jobPaths) find(r *http.Request) (verbs, error) {
	if r.PathValue("rest") == "" {
		return nil, fail(http.StatusBadRequest, "Missing job ID")
	}
	rest := strings.TrimPrefix(r.URL.EscapedPath(), jobPrefix)
	if escaped, tag, ok := cutVersionTag(rest); ok {
		if err := setPathValue(r, "id", escaped); err != nil {
			return nil, err
		}
		return paths[tagPath], setPathValue(r, "name", tag)
	}
	escaped, found := rest, jobPath
	for path := range paths {
		suffix, ok := strings.CutPrefix(path, jobPath)
		if id, cut := strings.CutSuffix(rest, suffix); ok && cut && id != "" && len(path) > len(found) {
			escaped, found = id, path
		}
	}
	return paths[found], setPathValue(r, "id", escaped)
}

func setPathValue(r *http.Request, name, escaped string) error {
	value, err := url.PathUnescape(escaped)
	if err != nil {
		return fail(http.StatusBadRequest, err.Error())
	}
	r.SetPathValue(name, value)
	return nil
}

// cutVersionTag splits "ID/versions/TAG/tag".
func cutVersionTag(rest string) (id, tag string, ok bool) {
	head, ok := strings.CutSuffix(rest, "/tag")
	if !ok {
		return "", "", false
	}
	i := strings.LastIndex(head, "/versions/")
	if i <= 0 {
		return "", "", false
	}
	return head[:i], head[i+len("/versions/"):], true
}
