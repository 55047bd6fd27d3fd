// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"testing"

	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/telemetry"
	"github.com/drover-project/drover/internal/testkit"
)

func TestMetricsSayWhatStateSays(t *testing.T) {
	c := testkit.Start(t)
	n := c.Node(nil)
	c.Run("web", 3)
	view := c.Store.View()
	value := func(list []telemetry.Sample, name string, labels ...string) float64 {
		t.Helper()
		for _, g := range list {
			if g.Name != name {
				continue
			}
			fits := true
			for i := 0; i+1 < len(labels); i += 2 {
				fits = fits && g.Labels[labels[i]] == labels[i+1]
			}
			if fits {
				return g.Value
			}
		}
		t.Errorf("no gauge %s %v", name, labels)
		return -1
	}
	host := map[string]string{"host": "h"}
	server := endpoint.ServerGauges(view, host, true)
	if v := value(server, "nomad.nomad.job_summary.running", "job", "web", "task_group", "g", "namespace", "default", "host", "h"); v != 3 {
		t.Errorf("running: %v", v)
	}
	if v := value(server, "nomad.nomad.job_status.running"); v != 1 {
		t.Errorf("running jobs: %v", v)
	}
	node := endpoint.NodeGauges(view.NodeByID(n.ID), view.AllocsByNode(n.ID), host)
	for name, want := range map[string]float64{
		"nomad.client.allocations.running": 3, "nomad.client.allocations.terminal": 0, "nomad.client.tasks.running": 3,
		"nomad.client.allocated.cpu": 3, "nomad.client.allocated.memory": 30, "nomad.client.unallocated.cpu": 3997, "nomad.client.unallocated.memory": 8162,
	} {
		if v := value(node, name, "node_id", n.ID, "node_pool", "default"); v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	if got := endpoint.NodeGauges(view.NodeByID("none"), nil, host); got != nil {
		t.Errorf("a node that nobody knows has %v", got)
	}
	if len(host) != 1 {
		t.Errorf("the labels that were given have changed: %v", host)
	}
}
