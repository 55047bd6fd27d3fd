// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
)

func TestATaskIsToldOfItsDevices(t *testing.T) {
	b := newBed(t)
	task := newTask("web")
	task.Config["say"] = "${ACME_VISIBLE}"
	a := newAlloc("a1", task)
	a.AllocatedResources = &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{
		"web": {Devices: []*model.AllocatedDeviceResource{{Vendor: "acme", Type: "gpu", Name: "x", DeviceIDs: []string{"g0"}}}},
	}}
	b.servers.assign(a)
	b.status("a1", "running")
	node := b.servers.nodes[0]
	if d := node.NodeResources.Devices; len(d) != 1 || d[0].Vendor != "acme" || d[0].Instances[0].ID != "g0" {
		t.Fatalf("the node has devices %+v", d)
	}
	b.driver.mu.Lock()
	defer b.driver.mu.Unlock()
	for _, x := range b.driver.tasks {
		if x.config.Env["ACME_VISIBLE"] != "acme/gpu/x:g0" || !strings.Contains(string(x.config.DriverConfig), "acme/gpu/x:g0") {
			t.Errorf("the task got %v with config %s", x.config.Env["ACME_VISIBLE"], x.config.DriverConfig)
		}
	}
}
