// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/server"
	"github.com/drover-project/drover/internal/testkit"
)

// TestTheConfigurationOfAutopilotBeginsWithTheFileAndLivesInTheState: the file counts only
// while the state has none.
func TestTheConfigurationOfAutopilotBeginsWithTheFileAndLivesInTheState(t *testing.T) {
	dir, file := t.TempDir(), model.DefaultAutopilot()
	file.MinQuorum, file.MaxTrailingLogs = 5, 9
	start := func(t *testing.T, check func(c *testkit.Cluster, get func() *model.AutopilotConfiguration)) {
		t.Run("", func(t *testing.T) {
			c := testkit.StartWith(t, server.Config{DataDir: dir, Autopilot: file})
			testkit.Eventually(t, "the state has a configuration", func() bool { return c.Store.View().AutopilotConfig() != nil })
			check(c, func() *model.AutopilotConfiguration { return c.Store.View().AutopilotConfig() })
		})
	}
	start(t, func(c *testkit.Cluster, get func() *model.AutopilotConfiguration) {
		if got := get(); got.MinQuorum != 5 || got.MaxTrailingLogs != 9 || got.ModifyIndex == 0 {
			t.Errorf("%+v", got)
		}
		for _, r := range []struct {
			query, body string
			status      int
			want        string
		}{
			{"", `{"CleanupDeadServers":true,"LastContactThreshold":"300ms","ServerStabilizationTime":5000000000,"MinQuorum":4}`, 200, "true"},
			{"?cas=1", `{"CleanupDeadServers":false}`, 200, "false"},
			{"?cas=x", `{}`, 400, `Error parsing cas value: strconv.ParseUint: parsing "x": invalid syntax`},
			{"", `{"LastContactThreshold":"zz"}`, 400, `Error parsing autopilot config: time: invalid duration "zz"`},
			{"", `{"LastContactThreshold":"0s"}`, 400, "LastContactThreshold must be positive, not 0s: with it no server would be healthy"},
			{"", `{"ServerStabilizationTime":"-1s"}`, 400, "ServerStabilizationTime must not be negative, and it is -1s"},
		} {
			resp, text := c.Ask(http.MethodPut, "/v1/operator/autopilot/configuration"+r.query, r.body)
			if resp.StatusCode != r.status || text != r.want {
				t.Errorf("%s %s: %d %q", r.query, r.body, resp.StatusCode, text)
			}
		}
		if got := get(); got.MinQuorum != 4 || got.LastContactThreshold != 300*time.Millisecond || got.ServerStabilizationTime != 5*time.Second || got.MaxTrailingLogs != 250 {
			t.Errorf("%+v", got)
		}
	})
	file.MinQuorum = 7
	start(t, func(c *testkit.Cluster, get func() *model.AutopilotConfiguration) {
		if got := get(); got.MinQuorum != 4 {
			t.Errorf("after a restart with another file: %+v", got)
		}
	})
}
