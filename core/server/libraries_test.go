// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server_test

import (
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/telemetry"
	"github.com/drover-project/drover/internal/testkit"
)

// A new version of raft may report to another module than the recorder listens to; nothing
// else would notice.
func TestTheRecorderHasTheMetricsOfRaft(t *testing.T) {
	recorder := telemetry.NewRecorder(nil, time.Minute, time.Hour)
	if err := recorder.ListenToLibraries("nomad"); err != nil {
		t.Fatal(err)
	}
	c := testkit.NewServers(t, 3)
	namespace(t, c.Leader(), "one")
	for _, name := range []string{"nomad.raft.commitTime", "nomad.raft.leader.lastContact"} {
		testkit.Eventually(t, "a sample of "+name, func() bool {
			return slices.ContainsFunc(recorder.Samples(t.Context()), func(s telemetry.Sample) bool { return s.Name == name })
		})
	}
}
