// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/drover-project/drover/core/state"
)

// RouteParams returns the declared parameters of every route that does not refuse every
// request.
func RouteParams() map[string]string {
	out := map[string]string{}
	for _, r := range allRoutes() {
		if r.takes != anything {
			out[r.verb+" "+r.path] = strings.ReplaceAll(r.takes, "?", "")
		}
	}
	return out
}

// Row is a row of the table of routes.
type Row struct {
	Verb, Path, Needs, Takes string
	Handles, Begins          bool
	Tables                   []string
	Limit                    int64
	Acts, Stream             bool
	action                   *action
}

// Rows returns the table of routes.
func Rows() (out []Row) {
	for _, r := range allRoutes() {
		a := r.does
		out = append(out, Row{
			Verb: r.verb, Path: r.path, Needs: r.needs, Takes: r.takes, Handles: a.handle != nil, Begins: a.begin != nil,
			Tables: a.tables, Limit: a.limit, Acts: a.acts, Stream: a.stream, action: a,
		})
	}
	return out
}

// Name returns the verb and the path.
func (r Row) Name() string { return r.Verb + " " + r.Path }

// Keys returns what a blocking query of the route waits for.
func (r Row) Keys(req *http.Request) []state.Key {
	return r.action.keysOf(&query{r: req, namespace: namespaceOf(req)})
}

// WritePrometheus writes metrics in the text format of Prometheus.
var WritePrometheus = writePrometheus

// Everywhere are the parameters that every route takes.
const Everywhere = everywhere

// ToldOfReads returns a context whose requests tell which parameters are read.
func ToldOfReads(ctx context.Context, told func(name string)) context.Context {
	return context.WithValue(ctx, readKey{}, told)
}

// KeptChanges returns the numbers of changes that are kept for subscribers of events, packed
// and not.
func KeptChanges(s *Server) (packed, plain int) {
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	for _, p := range s.events.packs {
		packed += p.size
	}
	return packed, s.events.size - packed
}
