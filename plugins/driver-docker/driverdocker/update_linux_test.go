// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker_test

import (
	"runtime"
	"testing"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

const limitsOfContainer = "{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}} {{.HostConfig.MemoryReservation}} {{.HostConfig.CpuShares}}"

func TestTheDaemonKeepsNewResources(t *testing.T) {
	for name, x := range map[string]struct {
		config map[string]any
		next   driver.Resources
		want   string
	}{
		"more":               {nil, driver.Resources{CPUMHz: 512, MemoryMB: 128}, "134217728 134217728 0 512"},
		"less":               {nil, driver.Resources{CPUMHz: 512, MemoryMB: 32}, "33554432 33554432 0 512"},
		"with a maximum":     {nil, driver.Resources{CPUMHz: 512, MemoryMB: 32, MemoryMaxMB: 96}, "100663296 100663296 33554432 512"},
		"with a hard limit":  {map[string]any{"memory_hard_limit": 256}, driver.Resources{CPUMHz: 512, MemoryMB: 96}, "268435456 268435456 100663296 512"},
		"a maximum counts":   {map[string]any{"memory_hard_limit": 256}, driver.Resources{CPUMHz: 512, MemoryMB: 32, MemoryMaxMB: 96}, "100663296 100663296 33554432 512"},
		"up to a hard limit": {map[string]any{"memory_hard_limit": 256}, driver.Resources{CPUMHz: 512, MemoryMB: 256}, "268435456 268435456 268435456 512"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, nil)
			tc := n.task(with(script("exec sleep 1000"), x.config))
			h := n.run(tc)
			for range 2 {
				if err := n.d.UpdateTask(limit(t), tc.ID, x.next); err != nil {
					t.Fatal(err)
				}
			}
			n.close()
			n.start()
			if err := n.d.RecoverTask(limit(t), h); err != nil {
				t.Fatal(err)
			}
			if got := n.inspect(tc, limitsOfContainer); got != x.want {
				t.Errorf("the daemon has %s, want %s", got, x.want)
			}
		})
	}
}

func TestAContainerLeavesTheCoresThatOthersHaveReserved(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("two cores are needed")
	}
	const cores = "{{.HostConfig.CpusetCpus}}"
	for name, x := range map[string]struct {
		config map[string]any
		start  driver.Resources
		want   []string // at the start, with core 0 to share, with none said, and with both
	}{
		"shares cores":       {nil, driver.Resources{MemoryMB: 64, SharedCores: []int{1}}, []string{"1", "0", "0", "0,1"}},
		"none is reserved":   {nil, driver.Resources{MemoryMB: 64}, []string{"", "0", "0", "0,1"}},
		"has cores":          {nil, driver.Resources{MemoryMB: 64, Cores: []int{1}}, []string{"1", "1", "1", "1"}},
		"chooses its cores":  {map[string]any{"cpuset_cpus": "1"}, driver.Resources{MemoryMB: 64, SharedCores: []int{0}}, []string{"1", "1", "1", "1"}},
		"machine lacks some": {nil, driver.Resources{MemoryMB: 64, SharedCores: []int{1, 5000}}, []string{"", "0", "0", "0,1"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, nil)
			tc := n.task(with(script("exec sleep 1000"), x.config))
			tc.Resources = x.start
			n.run(tc)
			for i, want := range x.want {
				if i > 0 {
					r := x.start
					r.SharedCores = [][]int{{0}, nil, {0, 1}}[i-1]
					if err := n.d.UpdateTask(limit(t), tc.ID, r); err != nil {
						t.Fatal(err)
					}
				}
				if got := n.inspect(tc, cores); got != want {
					t.Errorf("step %d: the daemon has the cores %q, want %q", i, got, want)
				}
			}
		})
	}
}
