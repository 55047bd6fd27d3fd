// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fingerprint_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/drover-project/drover/core/agent/fingerprint"
	"github.com/drover-project/drover/core/model"
)

// machine writes files of Linux's description of a machine and returns their root.
func machine(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, body := range files {
		path := filepath.Join(root, "sys", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestATopologyIsWhatLinuxSays(t *testing.T) {
	// Two sockets with interleaved cores and a node of memory only, as with CXL.
	got := fingerprint.Topology(machine(t, map[string]string{
		"devices/system/node/online":                           "0-2",
		"devices/system/node/node0/cpulist":                    "0,2",
		"devices/system/node/node1/cpulist":                    "1,3",
		"devices/system/node/node2/cpulist":                    "",
		"devices/system/node/node0/distance":                   "10 21 14",
		"devices/system/node/node1/distance":                   "21 10 24",
		"devices/system/node/node2/distance":                   "14 24 10",
		"devices/system/cpu/cpu1/topology/physical_package_id": "1",
		"devices/system/cpu/cpu3/topology/physical_package_id": "1",
	}), 4)
	want := &model.Topology{
		Nodes: model.ByteList{0, 1, 2}, Distances: []model.ByteList{{10, 21, 14}, {21, 10, 24}, {14, 24, 10}},
		Cores: []model.Core{{ID: 0}, {ID: 1, NodeID: 1, SocketID: 1}, {ID: 2}, {ID: 3, NodeID: 1, SocketID: 1}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestAMachineThatDescribesNoNodesIsOne(t *testing.T) {
	for name, root := range map[string]string{
		"nothing":           t.TempDir(),
		"nodes without CPU": machine(t, map[string]string{"devices/system/node/online": "0"}),
		"a broken list":     machine(t, map[string]string{"devices/system/node/online": "0-4294967295,x"}),
	} {
		if got := fingerprint.Topology(root, 2); len(got.Nodes) != 1 || len(got.Cores) != 2 || got.Cores[1].ID != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	got := fingerprint.Topology(machine(t, map[string]string{
		"devices/system/node/online": "0", "devices/system/node/node0/cpulist": "0-1", "devices/system/node/node0/distance": "10 20",
	}), 2)
	if got.Distances != nil || len(got.Cores) != 2 {
		t.Errorf("distances that are no table: %+v", got)
	}
}

func TestTheBusSaysOfWhichNodeADeviceIs(t *testing.T) {
	root := machine(t, map[string]string{
		"bus/pci/devices/0000:3b:00.0/numa_node": "1", "bus/pci/devices/0000:04:00.0/numa_node": "-1",
	})
	for address, want := range map[string]int{"0000:3b:00.0": 1, "00000000:3B:00.0": 1, "0000:04:00.0": -1, "0000:05:00.0": -1, "": -1, "0000:../../x": -1} {
		if node, ok := fingerprint.PCINodeIn(root, address); ok != (want >= 0) || ok && node != want {
			t.Errorf("%q: %d, %v; want %d", address, node, ok, want)
		}
	}
}
