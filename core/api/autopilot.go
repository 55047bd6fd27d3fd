// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"
	"time"

	"github.com/drover-project/drover/core/model"
)

// AutopilotConfiguration is the configuration of autopilot: see
// model.AutopilotConfiguration.
type AutopilotConfiguration struct {
	CleanupDeadServers      bool
	LastContactThreshold    string
	MaxTrailingLogs         uint64
	MinQuorum               uint64
	ServerStabilizationTime string
	EnableRedundancyZones   bool
	DisableUpgradeMigration bool
	EnableCustomUpgrades    bool
	CreateIndex             uint64
	ModifyIndex             uint64
}

func (s *Server) autopilotConfiguration(http.ResponseWriter, *http.Request) (any, error) {
	c := s.backend.AutopilotConfig()
	return &AutopilotConfiguration{
		CleanupDeadServers: c.CleanupDeadServers, LastContactThreshold: c.LastContactThreshold.String(), MaxTrailingLogs: c.MaxTrailingLogs,
		MinQuorum: c.MinQuorum, ServerStabilizationTime: c.ServerStabilizationTime.String(), EnableRedundancyZones: c.EnableRedundancyZones,
		DisableUpgradeMigration: c.DisableUpgradeMigration, EnableCustomUpgrades: c.EnableCustomUpgrades, CreateIndex: c.CreateIndex, ModifyIndex: c.ModifyIndex,
	}, nil
}

// autopilotBody is AutopilotConfiguration as clients send it. A limit that is absent gets
// the value of a new cluster: with zeros no server would be healthy.
type autopilotBody struct {
	CleanupDeadServers      bool
	LastContactThreshold    *flexDuration
	MaxTrailingLogs         *uint64
	MinQuorum               uint64
	ServerStabilizationTime *flexDuration
	EnableRedundancyZones   bool
	DisableUpgradeMigration bool
	EnableCustomUpgrades    bool
	CreateIndex             uint64
	ModifyIndex             uint64
}

func (s *Server) putAutopilotConfiguration(_ http.ResponseWriter, r *http.Request) (any, error) {
	var body autopilotBody
	if err := decodeBody(r, &body, false); err != nil {
		return nil, fail(statusOf(err), "Error parsing autopilot config: "+err.Error())
	}
	cas, err := casOf(r)
	if err != nil {
		return nil, err
	}
	cfg := model.DefaultAutopilot()
	cfg.CleanupDeadServers, cfg.MinQuorum, cfg.EnableRedundancyZones = body.CleanupDeadServers, body.MinQuorum, body.EnableRedundancyZones
	cfg.DisableUpgradeMigration, cfg.EnableCustomUpgrades = body.DisableUpgradeMigration, body.EnableCustomUpgrades
	if body.LastContactThreshold != nil {
		cfg.LastContactThreshold = time.Duration(*body.LastContactThreshold)
	}
	if body.MaxTrailingLogs != nil {
		cfg.MaxTrailingLogs = *body.MaxTrailingLogs
	}
	if body.ServerStabilizationTime != nil {
		cfg.ServerStabilizationTime = time.Duration(*body.ServerStabilizationTime)
	}
	updated, err := s.backend.SetAutopilotConfig(r.Context(), cfg, cas)
	if err != nil {
		return nil, err
	}
	return updated, nil
}

// autopilotHealth answers with status 429, and the usual body, if a server is not healthy.
func (s *Server) autopilotHealth(_ http.ResponseWriter, r *http.Request) (any, error) {
	h, err := s.backend.AutopilotHealth(r.Context())
	if err != nil || h.Healthy {
		return h, err
	}
	return nil, unhealthy(http.StatusTooManyRequests, h)
}
