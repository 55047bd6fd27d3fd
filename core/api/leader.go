// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Leader brings requests to the server that leads. core/peer implements it.
type Leader interface {
	// Leads reports whether this server leads, and its state contains every write that was
	// acknowledged before.
	Leads() bool
	// Do lets the leader answer a request: it calls here if this server leads, and
	// otherwise forwards the request and copies the leader's answer to w. A request that is
	// repeatable changes nothing. Unavailable: there is no leader, or it was lost before it
	// answered.
	Do(w http.ResponseWriter, r *http.Request, repeatable bool, here func(*http.Request) (any, error)) (any, error)
	// CatchUp waits a moment until the state of this server contains what it has shown to
	// clients on behalf of the leader.
	CatchUp(ctx context.Context)
}

// place says which server answers a request.
type place int

const (
	// atLeader is for all writes, and for reads unless they are stale.
	atLeader place = iota
	// fromState is for what every server answers alike from its own state: stale reads,
	// events, and calls to nodes, which every server reaches.
	fromState
	// here is for requests about the agent that receives them, and for those that need no
	// state.
	here
)

// answered sets which server answers the rows.
func answered(at place, rows []row) []row {
	for i := range rows {
		rows[i].does.at = at
	}
	return rows
}

// where sets which server answers.
func (a *action) where(at place) *action { a.at = at; return a }

// place decides, for every request, which server answers it.
func (s *Server) place(r *http.Request, rt *route) (place, error) {
	if rt.does.at != atLeader || !rt.stale {
		return rt.does.at, nil
	}
	limit, most := paramsOf(r).get("max_stale"), time.Duration(0)
	if limit != "" { // refused also where it limits nothing
		var err error
		if most, err = time.ParseDuration(limit); err != nil || most < 0 {
			return fromState, fail(http.StatusBadRequest, "Invalid max_stale: give a duration, for example 10s")
		}
	}
	switch {
	case modeOf(paramsOf(r)) != ReadStale:
		return atLeader, nil
	case limit == "":
		return fromState, nil
	}
	meta, err := s.backend.Ready(r.Context(), ReadStale)
	if err != nil || time.Duration(meta.LastContactMS)*time.Millisecond <= most {
		return fromState, err
	}
	return atLeader, nil
}

// modeOf returns how fresh a read must be. As with the reference, stale wins.
func modeOf(p params) ReadMode {
	stale, consistent := p.has("stale") && p.get("stale") != "false", p.has("consistent")
	switch {
	case stale:
		return ReadStale
	case consistent:
		return ReadConsistent
	}
	return ReadDefault
}

// placed answers a request on the server that its row names.
func (s *Server) placed(w http.ResponseWriter, r *http.Request, rt *route) (any, error) {
	at, err := s.place(r, rt)
	switch {
	case err != nil:
		return nil, err
	case s.cfg.Leader == nil, at == here: // the only server, or any
		return s.run(w, r, rt)
	case at == fromState:
		s.cfg.Leader.CatchUp(r.Context())
		if s.abreast(r, rt) {
			return s.run(w, r, rt)
		}
		r = without(r, "stale")
	}
	reads := rt.does.begin != nil
	var waiting *http.Request // with the wait of a blocking query, for this server only
	switch {
	case !reads || !readMethod(r.Method):
	case s.cfg.Leader.Leads():
		// It may lose its lead meanwhile. Its successor must not wait once more.
		waiting, r = r, without(r, "index", "wait")
	default:
		if r, err = s.wait(r, rt); err != nil {
			return nil, err
		}
	}
	v, err := s.cfg.Leader.Do(w, r, reads || rt.verb == get && !rt.does.acts, func(r *http.Request) (any, error) {
		if waiting != nil {
			r, waiting = waiting.WithContext(r.Context()), nil
		}
		return s.run(w, r, rt)
	})
	if errdefs.IsInvalidArgument(err) {
		err = bodyError(err)
	}
	return v, err
}

// abreast reports whether the state of this server has the index that a blocking stale
// read names. If it has not, the client has been shown more by another server: an answer
// from here would be older, and its index would go backwards. The leader answers then.
func (s *Server) abreast(r *http.Request, rt *route) bool {
	if rt.does.at != atLeader {
		return true // events wait for their index
	}
	v := s.backend.View()
	index, err := strconv.ParseUint(paramsOf(r).get("index"), 10, 64)
	return err != nil || v == nil || index <= v.Index()
}

// run answers a request on this server.
func (s *Server) run(w http.ResponseWriter, r *http.Request, rt *route) (any, error) {
	if rt.does.handle != nil {
		return rt.does.handle(s, w, r)
	}
	return s.read(w, r, rt)
}

// wait is the blocking part of a blocking query that the leader answers: it waits on this
// server until the answer has changed, so that waiting clients cost the leader nothing. It
// returns the request without its wait.
func (s *Server) wait(r *http.Request, rt *route) (*http.Request, error) {
	q, look, err := s.begin(http.Header{}, r, rt)
	if err != nil || q.minIndex == 0 {
		return r, err
	}
	q.elsewhere = true
	timeout, cancel := context.WithTimeout(r.Context(), q.wait)
	defer cancel()
	keys := rt.does.keysOf(q)
	for {
		if _, again := s.lookOnce(r.Context(), q, keys, look, timeout.Done()); !again {
			return without(r, "index", "wait"), r.Context().Err()
		}
	}
}
