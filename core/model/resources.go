// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// Resources is what a task asks for.
type Resources struct {
	CPU         int // MHz
	Cores       int // whole cores; excludes CPU
	MemoryMB    int // reserved
	MemoryMaxMB int // ceiling; 0: same as MemoryMB
	DiskMB      int
	IOPS        int
	SecretsMB   int // size of the secrets file system
	Networks    []*NetworkResource
	Devices     []*RequestedDevice
	NUMA        *NUMA
}

// NUMA is a wish for memory locality of cores and devices.
type NUMA struct {
	Affinity string // "none", "prefer" or "require"
	Devices  []string
}

// RequestedDevice asks for device instances: Name is "type", "vendor/type" or
// "vendor/type/model".
type RequestedDevice struct {
	Name        string
	Count       uint64
	Constraints []*Constraint
	Affinities  []*Affinity
}

// NetworkResource is a network that is asked for or given.
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
	Value           int    `json:",omitempty"` // port on the host; 0: to be chosen
	To              int    `json:",omitempty"` // port inside the task's network; -1: same as Value
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

// AllocatedResources is what the scheduler gave to an alloc.
type AllocatedResources struct {
	Tasks          map[string]*AllocatedTaskResources
	TaskLifecycles map[string]*TaskLifecycleConfig
	Shared         AllocatedSharedResources
}

// AllocatedTaskResources is what one task got.
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

// AllocatedDeviceResource is a set of device instances given to a task.
type AllocatedDeviceResource struct {
	Vendor    string
	Type      string
	Name      string
	DeviceIDs []string
}

// AllocatedSharedResources is what the tasks of an alloc share.
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

// ComparableResources is the sum that placement compares: what an alloc uses
// of a node.
type ComparableResources struct {
	CPUShares int64 // MHz
	MemoryMB  int64
	DiskMB    int64
	Cores     []uint16
}

// NodeUse is what allocs use of a node.
type NodeUse struct {
	CPU      int64 // MHz
	MemoryMB int64
	DiskMB   int64
}

// Comparable sums what the alloc uses of its node, all tasks at their peak
// over the lifecycle: prestart tasks that end before the main ones start share
// their room with them.
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
