// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"encoding/json"
	"fmt"
	"net/http"
)

func (s *Server) agentSelf(http.ResponseWriter, *http.Request) (any, error) {
	return s.local.Self(), nil
}

func (s *Server) agentMembers(http.ResponseWriter, *http.Request) (any, error) {
	return s.backend.Members(), nil
}

func (s *Server) agentServers(http.ResponseWriter, *http.Request) (any, error) {
	return orEmpty(s.local.Servers()), nil
}

// setAgentServers replaces the servers that the agent's node knows.
func (s *Server) setAgentServers(_ http.ResponseWriter, r *http.Request) (any, error) {
	addresses := paramsOf(r).all("address")
	if len(addresses) == 0 {
		return nil, fail(http.StatusBadRequest, "missing server address")
	}
	return nil, s.local.SetServers(addresses)
}

// agentHealth answers with status 500, and the usual body, if a requested side of the agent
// is unhealthy.
func (s *Server) agentHealth(w http.ResponseWriter, r *http.Request) (any, error) {
	h := *s.local.Health()
	switch side := paramsOf(r).get("type"); side {
	case "":
	case "client":
		h.Server = nil
	case "server":
		h.Client = nil
	default:
		return nil, fail(http.StatusBadRequest, fmt.Sprintf("unknown type %q; an agent is a client, a server or both", side))
	}
	ok := (h.Client == nil || h.Client.Ok) && (h.Server == nil || h.Server.Ok) && (h.Client != nil || h.Server != nil)
	if !ok {
		return nil, unhealthy(http.StatusInternalServerError, h)
	}
	return h, nil
}

// unhealthy returns an error with a status whose text is the body as JSON.
func unhealthy(status int, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return fail(status, string(text))
}

func (s *Server) agentJoin(_ http.ResponseWriter, r *http.Request) (any, error) {
	addrs := paramsOf(r).all("address")
	if len(addrs) == 0 {
		return nil, fail(http.StatusBadRequest, "missing address to join")
	}
	n, err := s.backend.JoinServers(r.Context(), addrs)
	out := &struct {
		NumJoined int    `json:"num_joined"`
		Error     string `json:"error"`
		Warning   string `json:"warning"` // the reference's; we have none
	}{NumJoined: n}
	if err != nil {
		out.Error = err.Error()
	}
	return out, nil
}

func (s *Server) agentForceLeave(_ http.ResponseWriter, r *http.Request) (any, error) {
	node := paramsOf(r).get("node")
	if node == "" {
		return nil, fail(http.StatusBadRequest, "missing node to force leave")
	}
	prune, err := boolParam(r, "prune")
	if err != nil {
		return nil, err
	}
	return done, s.backend.ForceLeave(r.Context(), node, prune)
}

// GossipKey names a key in a request.
type GossipKey struct{ Key string }

// GossipKeys are the answers of the servers to a request about the keys of their gossip.
type GossipKeys struct {
	// Messages are errors, by server.
	Messages map[string]string
	// Keys is on how many servers each key is, PrimaryKeys on how many each encrypts.
	Keys, PrimaryKeys map[string]int
	NumNodes          int
}

// gossipKeys returns the handler of a verb of the keys of the gossip.
func gossipKeys(verb string) handler {
	return func(s *Server, _ http.ResponseWriter, r *http.Request) (any, error) {
		asked := &GossipKey{}
		if verb != "list" {
			if err := decodeBody(r, asked, false); err != nil {
				return nil, err
			}
			if asked.Key == "" {
				return nil, fail(http.StatusBadRequest, "missing key")
			}
		}
		return s.backend.GossipKeys(r.Context(), verb, asked.Key)
	}
}

// metrics answers in JSON, or in the text format of Prometheus.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) (any, error) {
	wanted, err := boolParam(r, "histograms")
	if err != nil {
		return nil, err
	}
	format := paramsOf(r).get("format")
	if format != "" && format != "json" && format != "prometheus" {
		return nil, fail(http.StatusBadRequest, fmt.Sprintf("unknown format %q; use prometheus, or leave it out for JSON", format))
	}
	prometheus := format == "prometheus"
	if prometheus && !s.cfg.Prometheus {
		return nil, fail(http.StatusUnsupportedMediaType, "Prometheus is not enabled: set telemetry { prometheus_metrics = true } in the agent's configuration")
	}
	m := s.local.Metrics(r.Context())
	if prometheus {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8; escaping=underscores")
		return done, writePrometheus(w, m)
	}
	c := *m
	if !wanted {
		c.Histograms = nil
	}
	c.Gauges, c.Points, c.Counters, c.Samples = orEmpty(m.Gauges), orEmpty(m.Points), recent(m.Counters), recent(m.Samples)
	return &struct {
		MetricsSummary
		PrecisionGauges []MetricGauge
	}{c, []MetricGauge{}}, nil
}

// recent returns the samples with values in the newest interval; the JSON contains
// only those.
func recent(list []MetricSample) []MetricSample {
	out := make([]MetricSample, 0, len(list))
	for _, s := range list {
		if s.Count > 0 {
			out = append(out, s)
		}
	}
	return out
}
