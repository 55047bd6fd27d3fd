// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// AutopilotConfiguration says which servers of the cluster vote: see core/autopilot.
type AutopilotConfiguration struct {
	// CleanupDeadServers removes failed servers while enough others vote.
	CleanupDeadServers bool
	// LastContactThreshold is how long ago a healthy server has heard from the leader, and
	// MaxTrailingLogs how many entries of the log it may lack.
	LastContactThreshold time.Duration
	MaxTrailingLogs      uint64
	// MinQuorum is the number of healthy voters below which no server loses its vote and
	// none is removed because it has failed. 0 means DefaultMinQuorum.
	MinQuorum uint64
	// ServerStabilizationTime is how long a new server is healthy before it may vote.
	ServerStabilizationTime time.Duration
	// EnableRedundancyZones lets one server of each zone vote; the others of the zone stand
	// by.
	EnableRedundancyZones bool
	// DisableUpgradeMigration lets servers of a newer version vote at once. Otherwise they
	// wait until they are enough to take over from the older ones.
	DisableUpgradeMigration bool
	// EnableCustomUpgrades compares the servers' upgrade_version instead of their releases.
	EnableCustomUpgrades bool
	CreateIndex          uint64
	ModifyIndex          uint64
}

// DefaultMinQuorum is the smallest number of voters that tolerates the loss of one.
const DefaultMinQuorum = 3

// DefaultAutopilot returns the configuration of a new cluster.
func DefaultAutopilot() *AutopilotConfiguration {
	return &AutopilotConfiguration{
		CleanupDeadServers: true, LastContactThreshold: 200 * time.Millisecond, MaxTrailingLogs: 250, ServerStabilizationTime: 10 * time.Second,
	}
}

// Needed returns the number of healthy voters below which no server loses its vote or is
// removed.
func (c *AutopilotConfiguration) Needed() int {
	if c.MinQuorum == 0 {
		return DefaultMinQuorum
	}
	return int(min(c.MinQuorum, 1<<20))
}

// Validate checks the limits. Its errors name the fields as the API does.
func (c *AutopilotConfiguration) Validate() error {
	switch {
	case c.LastContactThreshold <= 0:
		return errdefs.InvalidArgumentf("LastContactThreshold must be positive, not %v: with it no server would be healthy", c.LastContactThreshold)
	case c.ServerStabilizationTime < 0:
		return errdefs.InvalidArgumentf("ServerStabilizationTime must not be negative, and it is %v", c.ServerStabilizationTime)
	}
	return nil
}
