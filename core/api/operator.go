// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"
	"strconv"

	"github.com/drover-project/drover/core/model"
)

func (s *Server) systemGC(_ http.ResponseWriter, r *http.Request) (any, error) {
	return done, s.backend.ForceGC(r.Context())
}

func (s *Server) reconcileSummaries(_ http.ResponseWriter, r *http.Request) (any, error) {
	return done, s.backend.ReconcileSummaries(r.Context())
}

func (s *Server) statusLeader(http.ResponseWriter, *http.Request) (any, error) {
	leader := s.backend.Leader()
	if leader == "" {
		return nil, fail(http.StatusInternalServerError, "No cluster leader")
	}
	return leader, nil
}

func (s *Server) statusPeers(http.ResponseWriter, *http.Request) (any, error) {
	return orEmpty(s.backend.Peers()), nil
}

func (s *Server) regions(http.ResponseWriter, *http.Request) (any, error) {
	return orEmpty(s.backend.Regions()), nil
}

func (s *Server) raftConfiguration(_ http.ResponseWriter, r *http.Request) (any, error) {
	cfg, err := s.backend.RaftConfiguration(r.Context())
	if err != nil {
		return nil, err
	}
	return cfg, nil
}

func (s *Server) removeRaftPeer(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, addr := paramsOf(r).get("id"), paramsOf(r).get("address")
	if (id == "") == (addr == "") {
		return nil, fail(http.StatusBadRequest, "Must specify either ?id with the server's ID or ?address with IP:port of peer to remove")
	}
	return done, s.backend.RemoveRaftPeer(r.Context(), id, addr)
}

func (s *Server) transferLeadership(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, addr := paramsOf(r).get("id"), paramsOf(r).get("address")
	if (id == "") == (addr == "") {
		return nil, fail(http.StatusBadRequest, "must specify id or address")
	}
	done, err := s.backend.TransferLeadership(r.Context(), id, addr)
	if err != nil {
		return nil, err
	}
	return done, nil
}

func theSchedulerConfig(v View, _ *query) (*model.SchedulerConfiguration, error) {
	return orMissing(v.SchedulerConfig(), "scheduler configuration not found")
}

func schedulerConfigIndex(c *model.SchedulerConfiguration) uint64 { return c.ModifyIndex }

func showSchedulerConfig(_ View, q *query, c *model.SchedulerConfiguration) result {
	return shown(&struct {
		SchedulerConfig *model.SchedulerConfiguration
		QueryMeta
	}{c, QueryMeta{Index: q.index, KnownLeader: true}})
}

func (s *Server) queueLanes(http.ResponseWriter, *http.Request) (any, error) {
	return orEmpty(s.backend.QueueLanes()), nil
}

func (s *Server) putSchedulerConfig(w http.ResponseWriter, r *http.Request) (any, error) {
	var cfg model.SchedulerConfiguration
	if err := decodeBody(r, &cfg, false); err != nil {
		return nil, err
	}
	switch cfg.SchedulerAlgorithm {
	case "", model.SchedulerAlgorithmBinpack, model.SchedulerAlgorithmSpread:
	default:
		return nil, fail(http.StatusBadRequest, "invalid scheduler algorithm: "+cfg.SchedulerAlgorithm)
	}
	if cfg.NodeLimitForFeasibilityChecks != 0 {
		note(r, "NodeLimitForFeasibilityChecks is not acted on: every feasible node is looked at")
	}
	cas, err := casOf(r)
	if err != nil {
		return nil, err
	}
	updated, index, err := s.backend.SetSchedulerConfig(r.Context(), &cfg, cas)
	if err != nil {
		return nil, err
	}
	setIndex(w, index)
	return &struct {
		Updated bool
		Index   uint64
	}{updated, index}, nil
}

// casOf returns the index that an object must still have, nil if any will do.
func casOf(r *http.Request) (*uint64, error) {
	v := paramsOf(r).get("cas")
	if v == "" {
		return nil, nil
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		return nil, fail(http.StatusBadRequest, "Error parsing cas value: "+err.Error())
	}
	return &n, nil
}
