// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"testing"

	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/model"
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

func TestANodesGaugesTellWhatWaitsAndWhatMayBeTaken(t *testing.T) {
	task := func(mb, most int64) *model.AllocatedResources {
		return &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{"t": {Memory: model.AllocatedMemoryResources{MemoryMB: mb, MemoryMaxMB: most}}}}
	}
	node := &model.Node{ID: "n1", NodeResources: &model.NodeResources{Networks: []*model.NetworkResource{{Device: "eth0", MBits: 1000}, {Mode: "bridge"}}},
		ReservedResources: &model.NodeReservedResources{}}
	list := endpoint.NodeGauges(node, []*model.Allocation{
		{ID: "old", ClientStatus: model.AllocClientStatusRunning, AllocatedResources: task(100, 300)},
		{ID: "next", PreviousAllocation: "old", ClientStatus: model.AllocClientStatusPending, AllocatedResources: task(100, 0)},
		{ID: "gone", ClientStatus: model.AllocClientStatusComplete, AllocatedResources: task(1000, 5000)},
		{ID: "after", PreviousAllocation: "gone", ClientStatus: model.AllocClientStatusPending, AllocatedResources: task(10, 0)},
	}, map[string]string{"host": "h"})
	got := map[string]float64{}
	for _, s := range list {
		got[s.Name+" "+s.Labels["device"]] = s.Value
	}
	for name, want := range map[string]float64{
		"nomad.client.allocations.blocked ": 1, "nomad.client.allocations.pending ": 1, "nomad.client.allocations.running ": 1,
		"nomad.client.allocations.terminal ": 1, "nomad.client.allocated.memory ": 210, "nomad.client.allocated.max_memory ": 410,
		"nomad.client.unallocated.network eth0": 1000,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	if _, ok := got["nomad.client.unallocated.network "]; ok {
		t.Error("a network without a device is told of")
	}
}
