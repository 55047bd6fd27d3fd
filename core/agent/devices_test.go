// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
)

// withGPU returns an alloc whose task web has the GPU g0.
func withGPU(id string) *model.Allocation {
	task := newTask("web")
	task.Config["say"] = "${ACME_VISIBLE}"
	task.Resources = &model.Resources{Devices: []*model.RequestedDevice{{Name: "gpu", Count: 1, Config: map[string]any{"for": "${NOMAD_ALLOC_ID}"}}}}
	a := newAlloc(id, task)
	a.AllocatedResources = &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{
		"web": {Devices: []*model.AllocatedDeviceResource{{Vendor: "acme", Type: "gpu", Name: "x", DeviceIDs: []string{"g0"}}}},
	}}
	return a
}

// TestADeviceIsReleasedOnceItsTaskHasEnded includes that the next task waits for it.
func TestADeviceIsReleasedOnceItsTaskHasEnded(t *testing.T) {
	b := newBed(t)
	a := withGPU("a1")
	b.servers.assign(a)
	b.status("a1", "running")
	b.servers.assign(withGPU("a2")) // by a server that takes a1 for dead
	b.driver.set(func() { b.driver.told = append(b.driver.told, "a2 waits") })
	b.servers.assign(stopped(a))
	b.status("a1", "complete")
	b.status("a2", "running")
	want := []string{"reserve g0 for a1/web map[for:a1]", "a2 waits", "release g0 of a1/web", "reserve g0 for a2/web map[for:a2]"}
	if got := b.driver.tellings(); !slices.Equal(got, want) {
		t.Errorf("the plugin was told %q", got)
	}
}

func TestADeviceWhosePluginWasAwayIsReleasedByTheNextAgent(t *testing.T) {
	b := newBed(t)
	a := withGPU("a1")
	b.servers.assign(a)
	b.status("a1", "running")
	b.driver.set(func() { b.driver.deafDevices = true })
	b.servers.assign(stopped(a))
	b.status("a1", "complete")
	b.close()
	b.driver.set(func() { b.driver.deafDevices = false })
	b.start()
	b.eventually("it is released", func() bool { return slices.Contains(b.driver.tellings(), "release g0 of a1/web") })
}

func TestTheTaskAndTheNodeAreToldOfASickDeviceOnce(t *testing.T) {
	b := newBed(t)
	b.servers.assign(withGPU("a1"))
	b.status("a1", "running")
	b.driver.sicken("too hot")
	events := func() string { return displays(b.servers.report("a1"), "web") }
	b.eventually("the task is told", func() bool {
		return strings.Contains(events(), "Device g0 of acme/gpu/x is not healthy: too hot")
	})
	b.close()
	b.start()
	b.driver.sicken("")
	b.eventually("the task is told of the recovery", func() bool { return strings.Contains(events(), "Device g0 of acme/gpu/x is healthy again") })
	if n := strings.Count(events(), "not healthy"); n != 1 {
		t.Errorf("the task was told %d times: %s", n, events())
	}
	b.eventually("the node has both events", func() bool {
		var all []string
		b.servers.set(func() {
			for _, n := range b.servers.nodes {
				for _, e := range n.Events {
					all = append(all, e.Message)
				}
			}
		})
		text := strings.Join(all, "; ")
		return strings.Contains(text, "too hot") && strings.Contains(text, "healthy again")
	})
}

func TestATaskIsToldOfItsDevices(t *testing.T) {
	b := newBed(t)
	a := withGPU("a1")
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
