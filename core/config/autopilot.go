// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"regexp"

	"github.com/drover-project/drover/core/model"
)

// Autopilot is the initial configuration of autopilot: it acts until the cluster's state
// has one. Fields that are not set have the values of model.DefaultAutopilot.
type Autopilot struct {
	CleanupDeadServers      *bool  `json:"cleanup_dead_servers,omitempty"`
	LastContactThreshold    string `json:"last_contact_threshold,omitempty"`
	MaxTrailingLogs         *int   `json:"max_trailing_logs,omitempty"`
	MinQuorum               int    `json:"min_quorum,omitempty"`
	ServerStabilizationTime string `json:"server_stabilization_time,omitempty"`
	EnableRedundancyZones   bool   `json:"enable_redundancy_zones,omitempty"`
	DisableUpgradeMigration bool   `json:"disable_upgrade_migration,omitempty"`
	EnableCustomUpgrades    bool   `json:"enable_custom_upgrades,omitempty"`
}

// Model returns the configuration as the cluster stores it. Finish has validated it.
func (a *Autopilot) Model() *model.AutopilotConfiguration {
	out := model.DefaultAutopilot()
	if a.CleanupDeadServers != nil {
		out.CleanupDeadServers = *a.CleanupDeadServers
	}
	out.LastContactThreshold = Duration(a.LastContactThreshold, out.LastContactThreshold)
	if a.MaxTrailingLogs != nil {
		out.MaxTrailingLogs = uint64(max(*a.MaxTrailingLogs, 0))
	}
	out.MinQuorum = uint64(max(a.MinQuorum, 0))
	out.ServerStabilizationTime = Duration(a.ServerStabilizationTime, out.ServerStabilizationTime)
	out.EnableRedundancyZones, out.DisableUpgradeMigration, out.EnableCustomUpgrades = a.EnableRedundancyZones, a.DisableUpgradeMigration, a.EnableCustomUpgrades
	return out
}

// version matches upgrade_version: numbers between dots, and a suffix.
var version = regexp.MustCompile(`^v?\d+(\.\d+)*(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// zone matches redundancy_zone. It is short because it is a tag of the gossip, whose tags
// together have at most 512 bytes.
var zone = regexp.MustCompile(`^[0-9A-Za-z._-]{1,64}$`)

// autopilotProblems lists the invalid settings of who votes.
func (c *Config) autopilotProblems() (out []string) {
	a, s := &c.Autopilot, &c.Server
	if a.MaxTrailingLogs != nil && *a.MaxTrailingLogs < 0 {
		out = append(out, "autopilot.max_trailing_logs is negative")
	}
	if a.MinQuorum < 0 {
		out = append(out, "autopilot.min_quorum is negative")
	}
	if err := a.Model().Validate(); err != nil {
		out = append(out, "autopilot: "+err.Error())
	}
	if s.UpgradeVersion != "" && (len(s.UpgradeVersion) > 64 || !version.MatchString(s.UpgradeVersion)) {
		out = append(out, fmt.Sprintf("server.upgrade_version %q is no version such as \"1.2.0\", which others can be newer or older than", s.UpgradeVersion))
	}
	if s.RedundancyZone != "" && !zone.MatchString(s.RedundancyZone) {
		out = append(out, fmt.Sprintf("server.redundancy_zone %q must have 1 to 64 letters, digits, dots, dashes or underscores", s.RedundancyZone))
	}
	if s.Enabled && s.NonVotingServer && s.BootstrapExpect == 1 {
		out = append(out, "server.non_voting_server: a server that is to be a cluster of its own must vote; let it join others with server_join { retry_join = [...] } and without bootstrap_expect")
	}
	return out
}
