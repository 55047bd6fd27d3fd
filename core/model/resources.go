// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "reflect"

// Resources are the resources that a task requests.
type Resources struct {
	CPU         int // MHz
	Cores       int // whole cores; excludes CPU
	MemoryMB    int // reserved
	MemoryMaxMB int // upper limit; 0 means MemoryMB
	DiskMB      int
	IOPS        int
	SecretsMB   int // size of the secrets file system
	Networks    []*NetworkResource
	Devices     []*RequestedDevice
	NUMA        *NUMA
}

// NUMA requests that a task's cores are of one NUMA node, and with them the devices that
// Devices names by RequestedDevice.Name.
type NUMA struct {
	Affinity string // NUMANone, NUMAPrefer or NUMARequire
	Devices  []string
}

// Values of NUMA.Affinity.
const (
	NUMANone    = "none"
	NUMAPrefer  = "prefer"
	NUMARequire = "require"
)

// NUMAActs reports whether there is something that the numa block could keep together: the
// task's cores, or a device that it names.
func (r *Resources) NUMAActs() bool {
	return r.NUMA != nil && (r.Cores > 0 || len(r.NUMA.Devices) > 0)
}

// RequestedDevice requests device instances. Name is "type", "vendor/type" or
// "vendor/type/model". Config, which the reference does not have, is for the device
// plugin, whose schema the node checks it against.
type RequestedDevice struct {
	Name        string
	Count       uint64
	Constraints []*Constraint
	Affinities  []*Affinity
	Config      map[string]any `json:",omitempty"`
}

// NetworkResource is a network that is requested or assigned.
type NetworkResource struct {
	Mode          string     `json:",omitempty"` // "", "host", "bridge", "none", "cni/NAME"
	Device        string     `json:",omitempty"`
	CIDR          string     `json:",omitempty"`
	IP            string     `json:",omitempty"`
	Hostname      string     `json:",omitempty"`
	MBits         int        `json:",omitempty"`
	DNS           *DNSConfig `json:",omitempty"`
	ReservedPorts []Port     `json:",omitempty"`
	DynamicPorts  []Port     `json:",omitempty"`
	CNI           *CNIConfig `json:",omitempty"`
}

// Port is a labelled port.
type Port struct {
	Label           string
	Value           int    `json:",omitempty"` // port on the host; 0 means a dynamic port
	To              int    `json:",omitempty"` // port inside the task's network; -1 means the same as Value
	HostNetwork     string `json:",omitempty"`
	IgnoreCollision bool   `json:",omitempty"`
}

// DNSConfig is the resolver configuration of a network namespace.
type DNSConfig struct {
	Servers  []string
	Searches []string
	Options  []string
}

// CNIConfig passes arguments to CNI plugins.
type CNIConfig struct {
	Args map[string]string
}

// AllocatedResources are the resources that the scheduler assigned to an alloc.
type AllocatedResources struct {
	Tasks          map[string]*AllocatedTaskResources
	TaskLifecycles map[string]*TaskLifecycleConfig
	Shared         AllocatedSharedResources
}

// ShareResources makes each row share what is equal with its predecessor: the whole of it,
// or the part that belongs to the tasks, since allocs of one group differ in their ports
// only. The rows must not be changed afterwards.
func ShareResources(rows []*AllocatedResources) {
	for i := 1; i < len(rows); i++ {
		was, is := rows[i-1], rows[i]
		if was == nil || is == nil {
			continue
		}
		if !reflect.DeepEqual(was.Tasks, is.Tasks) || !reflect.DeepEqual(was.TaskLifecycles, is.TaskLifecycles) {
			continue
		}
		is.Tasks, is.TaskLifecycles = was.Tasks, was.TaskLifecycles
		if reflect.DeepEqual(&was.Shared, &is.Shared) {
			rows[i] = was
		}
	}
}

// AllocatedTaskResources are the resources of one task.
//
// Invariant: Devices has one row for each of the task's RequestedDevice, in their order.
type AllocatedTaskResources struct {
	Cpu      AllocatedCpuResources
	Memory   AllocatedMemoryResources
	Networks []*NetworkResource
	Devices  []*AllocatedDeviceResource
}

// AllocatedCpuResources is the processor share of a task.
type AllocatedCpuResources struct {
	CpuShares     int64 // MHz
	ReservedCores []uint16
}

// AllocatedMemoryResources is the memory of a task.
type AllocatedMemoryResources struct {
	MemoryMB    int64
	MemoryMaxMB int64
}

// AllocatedDeviceResource is a set of device instances assigned to a task.
type AllocatedDeviceResource struct {
	Vendor    string
	Type      string
	Name      string
	DeviceIDs []string
}

// AllocatedSharedResources are the resources that the tasks of an alloc share.
type AllocatedSharedResources struct {
	DiskMB   int64
	Networks []*NetworkResource
	Ports    []AllocatedPortMapping
}

// AllocatedPortMapping is one port of a group's network.
type AllocatedPortMapping struct {
	Label           string
	Value           int
	To              int `json:",omitempty"`
	HostIP          string
	IgnoreCollision bool `json:",omitempty"`
}

// ComparableResources is the sum of an alloc's resources that placement compares with
// a node.
type ComparableResources struct {
	CPUShares int64 // MHz
	MemoryMB  int64
	DiskMB    int64
	Cores     []uint16
}

// NodeUse is the resource usage of allocs on a node.
//
// Invariant: the state's NodeUse of a node is the sum over its allocs that have not ended.
type NodeUse struct {
	CPU      int64 // MHz
	MemoryMB int64
	DiskMB   int64
}

// Comparable sums the resources that the alloc uses of its node, at the peak of its
// lifecycle: prestart tasks that end before the main tasks start share resources with
// them.
func (a *AllocatedResources) Comparable() ComparableResources {
	out := ComparableResources{DiskMB: a.Shared.DiskMB}
	var prestart, main, poststop ComparableResources
	for name, t := range a.Tasks {
		dst := &main
		switch lc := a.TaskLifecycles[name]; {
		case lc == nil:
		case lc.Hook == TaskLifecycleHookPrestart && !lc.Sidecar:
			dst = &prestart
		case lc.Hook == TaskLifecycleHookPoststop:
			dst = &poststop
		}
		dst.CPUShares += t.Cpu.CpuShares
		dst.MemoryMB += t.Memory.MemoryMB
		out.Cores = append(out.Cores, t.Cpu.ReservedCores...)
	}
	out.CPUShares = max(prestart.CPUShares, main.CPUShares, poststop.CPUShares)
	out.MemoryMB = max(prestart.MemoryMB, main.MemoryMB, poststop.MemoryMB)
	return out
}
