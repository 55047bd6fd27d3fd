// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fingerprint_test

import (
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/drover-project/drover/core/agent/fingerprint"
	"github.com/drover-project/drover/core/model"
)

func TestANodeKnowsItsMachine(t *testing.T) {
	f := fingerprint.Probe(t.Context(), fingerprint.Options{DataDir: t.TempDir(), Version: "1.0"})
	for _, key := range []string{"kernel.name", "kernel.version", "os.name", "cpu.arch", "cpu.numcores", "cpu.frequency", "cpu.totalcompute",
		"memory.totalbytes", "unique.hostname", "unique.storage.bytestotal", "nomad.version", "os.signals", "unique.network.ip-address"} {
		if f.Attributes[key] == "" && runtime.GOOS == "linux" {
			t.Errorf("no %s", key)
		}
	}
	r := f.Resources
	if int(r.Cpu.TotalCpuCores) != len(r.Cpu.ReservableCpuCores) || r.Cpu.CpuShares <= 0 || r.Memory.MemoryMB <= 0 || r.Disk.DiskMB <= 0 {
		t.Errorf("resources %+v", r)
	}
	if r.MinDynamicPort != 20000 || r.MaxDynamicPort != 32000 {
		t.Errorf("dynamic ports %d-%d", r.MinDynamicPort, r.MaxDynamicPort)
	}
}

func TestOverridesWin(t *testing.T) {
	f := fingerprint.Probe(t.Context(), fingerprint.Options{
		Interface: "lo", CPUTotalCompute: 5000, MemoryMB: 123, DiskTotalMB: 77, MaxDynamicPort: 21000,
		NetworkSpeed: 40000, NoServices: true,
		Reserved: &model.NodeReservedResources{Cpu: model.NodeReservedCpuResources{CpuShares: 1000}},
	})
	if f.Resources.Cpu.CpuShares != 5000 || f.Attributes["cpu.usablecompute"] != "4000" {
		t.Errorf("cpu %+v %s", f.Resources.Cpu, f.Attributes["cpu.usablecompute"])
	}
	if f.Resources.Memory.MemoryMB != 123 || f.Attributes["memory.totalbytes"] != strconv.Itoa(123<<20) || f.Resources.Disk.DiskMB != 77 || f.Resources.MaxDynamicPort != 21000 {
		t.Errorf("resources %+v", f.Resources)
	}
	for _, n := range f.Resources.NodeNetworks {
		if n.Speed != 40000 {
			t.Errorf("speed %d", n.Speed)
		}
	}
	if f.Attributes["nomad.service_discovery"] != "false" {
		t.Errorf("service discovery %q", f.Attributes["nomad.service_discovery"])
	}
	if runtime.GOOS == "linux" && f.Attributes["unique.network.ip-address"] != "127.0.0.1" {
		t.Errorf("address %q", f.Attributes["unique.network.ip-address"])
	}
}

func TestReservedCoresAreNotForTasks(t *testing.T) {
	all := fingerprint.Probe(t.Context(), fingerprint.Options{Interface: "lo", CPUTotalCompute: 8000})
	cores := int(all.Resources.Cpu.TotalCpuCores)
	f := fingerprint.Probe(t.Context(), fingerprint.Options{
		Interface: "lo", CPUTotalCompute: 8000,
		Reserved: &model.NodeReservedResources{Cpu: model.NodeReservedCpuResources{CpuShares: 100, ReservedCpuCores: []uint16{0, 60000}}},
	})
	if got := f.Resources.Cpu.ReservableCpuCores; len(got) != cores-1 || slices.Contains(got, 0) || f.Attributes["cpu.reservablecores"] != strconv.Itoa(cores-1) {
		t.Errorf("reservable are %v of %d", got, cores)
	}
	if got := f.Reserved.Cpu; int(got.CpuShares) != 100+8000/cores || !slices.Equal(got.ReservedCpuCores, []uint16{0}) {
		t.Errorf("reserved is %+v of %d cores", got, cores)
	}
	if f.Attributes["cpu.usablecompute"] != strconv.Itoa(8000-100-8000/cores) || !f.Resources.Processors.Topology.Cores[0].Disable {
		t.Errorf("usable are %s MHz", f.Attributes["cpu.usablecompute"])
	}
	f = fingerprint.Probe(t.Context(), fingerprint.Options{Interface: "lo", ReservableCores: []uint16{0, 60000}})
	if got := f.Resources.Cpu; !slices.Equal(got.ReservableCpuCores, []uint16{0}) || int(got.TotalCpuCores) != cores {
		t.Errorf("of one reservable core: %+v", got)
	}
}

func TestTheDiskThatAllocsMayUseIsTheOperatorsWord(t *testing.T) {
	f := fingerprint.Probe(t.Context(), fingerprint.Options{Interface: "lo", DiskTotalMB: 1000, DiskFreeMB: 70})
	if f.Resources.Disk.DiskMB != 70 || f.Attributes["unique.storage.bytesfree"] != strconv.Itoa(70<<20) || f.Attributes["unique.storage.bytestotal"] != strconv.Itoa(1000<<20) {
		t.Errorf("%+v, %s free of %s", f.Resources.Disk, f.Attributes["unique.storage.bytesfree"], f.Attributes["unique.storage.bytestotal"])
	}
}

func TestTheUseOfADirectorysDiskIsTold(t *testing.T) {
	u, err := fingerprint.DirUse(t.Context(), t.TempDir())
	if err != nil || u.Size == 0 || u.Used > u.Size || u.UsedPercent <= 0 || u.UsedPercent > 100 {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := fingerprint.DirUse(t.Context(), "/no/such/directory"); err == nil {
		t.Error("a directory that is not there has a disk")
	}
}
