// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"maps"
	"testing"

	"github.com/drover-project/drover/core/api"
)

func TestOnlyALeaderPublishesTheHealthOfTheServersAndAsItIs(t *testing.T) {
	const healthy, tolerance = "nomad.nomad.autopilot.healthy", "nomad.nomad.autopilot.failure_tolerance"
	three := []*api.AutopilotServer{{}, {}, {}}
	for name, c := range map[string]struct {
		health *api.AutopilotHealth
		want   map[string]float64
	}{
		"a follower":               {&api.AutopilotHealth{}, nil},
		"three that are well":      {&api.AutopilotHealth{Healthy: true, FailureTolerance: 1, Servers: three}, map[string]float64{healthy: 1, tolerance: 1}},
		"three of which one fails": {&api.AutopilotHealth{Servers: three}, map[string]float64{healthy: 0, tolerance: 0}},
	} {
		if got := autopilotGauges(c.health); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
