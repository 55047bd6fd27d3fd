// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"slices"
	"time"
)

// Node statuses.
const (
	NodeStatusInit         = "initializing"
	NodeStatusReady        = "ready"
	NodeStatusDown         = "down"
	NodeStatusDisconnected = "disconnected"
)

// Scheduling eligibility of a node.
const (
	NodeSchedulingEligible   = "eligible"
	NodeSchedulingIneligible = "ineligible"
)

// Node is a machine that runs allocs.
type Node struct {
	ID           string
	SecretID     string // proves the node's identity to servers; never returned by the API
	Name         string
	Datacenter   string
	NodeClass    string
	NodePool     string
	HTTPAddr     string
	TLSEnabled   bool
	CgroupParent string

	Attributes           map[string]string
	Meta                 map[string]string
	Links                map[string]string
	NodeResources        *NodeResources
	ReservedResources    *NodeReservedResources
	ComputedClass        string // hash of what constraints can see except unique.*; see ComputeClass
	Drivers              map[string]*DriverInfo
	HostVolumes          map[string]*HostVolumeConfig
	HostNetworks         map[string]*HostNetworkConfig
	CSIControllerPlugins map[string]*CSIInfo
	CSINodePlugins       map[string]*CSIInfo

	Status                string
	StatusDescription     string
	StatusUpdatedAt       int64 // Unix seconds
	SchedulingEligibility string
	Drain                 bool
	DrainStrategy         *DrainStrategy
	LastDrain             *DrainMetadata
	Events                []*NodeEvent // the newest events; in a registration, the events to report
	NodeMaxAllocs         int
	GCVolumesOnNodeGC     bool
	IdentitySigningKeyID  string

	LastMissedHeartbeatIndex uint64
	LastAllocUpdateIndex     uint64
	CreateIndex              uint64
	ModifyIndex              uint64

	// Plugins are the node's plugins, by the names of their files.
	Plugins map[string]*NodePlugin `json:",omitempty"`
	// PluginReleases are the node's releases from the cluster's registry of plugins,
	// by name.
	PluginReleases map[string]*NodeRelease `json:",omitempty"`
	// Region is set in registrations, so that servers of another region can refuse the
	// node. It is not stored.
	Region string `json:"-"`
	// Instance is set in registrations, see rpc.Identity. It is not stored.
	Instance string `json:"-"`
	// ClusterID is set in registrations of a node that belongs to a cluster, so that
	// servers of another cluster can refuse it. It is not stored.
	ClusterID string `json:"-"`
	// Session is set in registrations, see rpc.Identity. It is not stored.
	Session uint64 `json:"-"`
	// Token is set in registrations: the identity that servers have given to the node, or
	// the token that introduces it. It is not stored.
	Token string `json:"-"`
	// Number is set in registrations and counts the registrations of the process, so that
	// servers know which of two registrations is newer. 0 means unknown. It is not stored.
	Number uint64 `json:"-"`
}

// Ready reports whether allocs may be placed on the node.
func (n *Node) Ready() bool {
	return n.Status == NodeStatusReady && n.DrainStrategy == nil && n.SchedulingEligibility == NodeSchedulingEligible
}

// TerminalStatus reports whether the node is gone.
func (n *Node) TerminalStatus() bool { return n.Status == NodeStatusDown }

// Copy returns a copy whose fields may be replaced without changing n; maps are
// shared.
func (n *Node) Copy() *Node {
	c := *n
	return &c
}

// UpdatesResourcesAttribute names the node attribute that is "true" if tasks of a driver
// can get other resources while they run. The node sets it; a driver's own fingerprint
// cannot.
func UpdatesResourcesAttribute(driver string) string { return "driver." + driver + ".update_resources" }

// UpdatesResources reports whether tasks of a driver on n can get other resources while
// they run.
func (n *Node) UpdatesResources(driver string) bool {
	return n.Attributes[UpdatesResourcesAttribute(driver)] == "true"
}

// DriverNetworksAttribute names the node attribute with the networks that tasks of a driver
// can be in, separated by commas: "host", "group" (their group's network, whatever makes
// it) and "none" (the driver keeps them off all networks by itself). It is missing if the
// driver does not say. The node sets it; a driver's own fingerprint cannot.
func DriverNetworksAttribute(driver string) string { return "driver." + driver + ".networks" }

// DriverInfo is a node's report on one of its task drivers.
type DriverInfo struct {
	Attributes        map[string]string
	Detected          bool
	Healthy           bool
	HealthDescription string
	UpdateTime        time.Time

	// SchemaHash is the hash of the DriverSchema that the driver publishes, "" for
	// none. The API returns schemas at /v1/schemas.
	SchemaHash    string `json:"-"`
	PluginVersion string `json:"-"`
}

// NodePlugin is a node's report on one of its plugins. Placement does not use it: it
// uses DriverInfo and NodeDeviceResource.
type NodePlugin struct {
	Version  string
	Digest   string // "sha256:HEX" of its file, "" if not known yet
	State    string // in the terms of the node's plugin host
	Error    string // why it does not run
	Restarts int    // since the agent started
	Drivers  []string
	Devices  []string
	// Collectors are the plugin's stats collectors, and Networks its network plugins.
	Collectors []string `json:",omitempty"`
	Networks   []string `json:",omitempty"`
}

// DrainStrategy describes a node's drain.
type DrainStrategy struct {
	Deadline         time.Duration // relative; negative: force at once; 0: no deadline
	IgnoreSystemJobs bool
	ForceDeadline    time.Time // absolute
	StartedAt        time.Time
}

// DrainStatusComplete is the Status of a drain that has not been canceled.
const DrainStatusComplete = "complete"

// DrainMetadata is the history of the last drain.
type DrainMetadata struct {
	StartedAt  time.Time
	UpdatedAt  time.Time
	Status     string
	AccessorID string
	Meta       map[string]string
}

// MaxNodeEvents is the number of newest events that are kept per node.
const MaxNodeEvents = 10

// maxPluginEvents is the number of events of one plugin that may push out events of
// others.
const maxPluginEvents = 3

// NewestNodeEvents returns the events that are kept of a node, oldest first. If there
// are too many, the oldest event of a plugin that has more than a few goes first, so that
// a plugin that fails again and again does not push out what else has happened.
func NewestNodeEvents(events []*NodeEvent) []*NodeEvent {
	if len(events) <= MaxNodeEvents {
		return events
	}
	events = slices.Clone(events)
	for len(events) > MaxNodeEvents {
		byPlugin := map[string]int{}
		for _, e := range events {
			byPlugin[e.plugin()]++
		}
		byPlugin[""] = 0 // events that concern no plugin
		oldest := max(0, slices.IndexFunc(events, func(e *NodeEvent) bool { return byPlugin[e.plugin()] > maxPluginEvents }))
		events = slices.Delete(events, oldest, oldest+1)
	}
	return events
}

// NodeEventPlugin is the key of NodeEvent.Details for the plugin that an event concerns.
const NodeEventPlugin = "plugin"

func (e *NodeEvent) plugin() string {
	if e == nil {
		return ""
	}
	return e.Details[NodeEventPlugin]
}

// NodeEvent is an event of a node.
type NodeEvent struct {
	Message     string
	Subsystem   string
	Details     map[string]string
	Timestamp   time.Time
	CreateIndex uint64
}

// HostVolumeConfig is a directory of the node that jobs may ask for.
type HostVolumeConfig struct {
	Name     string
	Path     string
	ReadOnly bool
	ID       string
}

// HostNetworkConfig names an address range of the node.
type HostNetworkConfig struct {
	Name          string
	CIDR          string
	Interface     string
	ReservedPorts string
}

// NodeResources are the resources of a node.
type NodeResources struct {
	Cpu            NodeCpuResources
	Memory         NodeMemoryResources
	Disk           NodeDiskResources
	Networks       []*NetworkResource
	NodeNetworks   []*NodeNetworkResource
	Devices        []*NodeDeviceResource
	Processors     NodeProcessorResources
	MinDynamicPort int
	MaxDynamicPort int
}

// NodeProcessorResources is the processor topology.
type NodeProcessorResources struct {
	Topology *Topology
}

// Topology lists the cores of a node and the distances of its memory.
type Topology struct {
	Nodes                  ByteList
	Distances              []ByteList
	Cores                  []Core
	OverrideTotalCompute   uint64
	OverrideWitholdCompute uint64
}

// Core is one logical processor. Grade is true for a performance core.
type Core struct {
	SocketID   uint8
	NodeID     uint8
	ID         uint16
	Grade      bool
	Disable    bool
	BaseSpeed  uint64 // MHz
	MaxSpeed   uint64 // MHz
	GuessSpeed uint64 // MHz
}

// NodeCpuResources is the compute capacity of a node.
type NodeCpuResources struct {
	CpuShares          int64 // MHz over all cores
	TotalCpuCores      uint16
	ReservableCpuCores []uint16
}

// NodeMemoryResources is the memory of a node.
type NodeMemoryResources struct {
	MemoryMB int64
}

// NodeDiskResources is the disk of a node.
type NodeDiskResources struct {
	DiskMB int64
}

// NodeNetworkResource is an interface of a node with its addresses.
type NodeNetworkResource struct {
	Mode       string
	Device     string
	MacAddress string
	Speed      int
	Addresses  []NodeNetworkAddress
}

// NodeNetworkAddress is one address of an interface.
type NodeNetworkAddress struct {
	Family        string
	Alias         string
	Address       string
	ReservedPorts string
	Gateway       string
}

// NodeDeviceResource is a group of identical devices.
type NodeDeviceResource struct {
	Vendor     string
	Type       string
	Name       string
	Instances  []*NodeDevice
	Attributes map[string]*Attribute
}

// NodeDevice is one device instance.
type NodeDevice struct {
	ID                string
	Healthy           bool
	HealthDescription string
	Locality          *NodeDeviceLocality
	// Attributes, which the reference does not have, belong to this device alone. They
	// replace attributes of its group with the same names.
	Attributes map[string]*Attribute `json:",omitempty"`
}

// NodeDeviceLocality is the location of a device on the machine.
type NodeDeviceLocality struct {
	PciBusID string
	// NUMANode, which the reference does not have, is the NUMA node to which the device is
	// attached; nil if it is not known.
	NUMANode *int `json:",omitempty"`
}

// Attribute is a typed value with a unit.
type Attribute struct {
	FloatVal  *float64 `json:"Float,omitempty"`
	IntVal    *int64   `json:"Int,omitempty"`
	StringVal *string  `json:"String,omitempty"`
	BoolVal   *bool    `json:"Bool,omitempty"`
	Unit      string   `json:",omitempty"`
}

// NodeReservedResources are the resources of a node that allocs may not use.
type NodeReservedResources struct {
	Cpu      NodeReservedCpuResources
	Memory   NodeReservedMemoryResources
	Disk     NodeReservedDiskResources
	Networks NodeReservedNetworkResources
}

// NodeReservedCpuResources is the compute that allocs may not use.
type NodeReservedCpuResources struct {
	CpuShares        uint64
	ReservedCpuCores []uint16
}

// NodeReservedMemoryResources is the memory that allocs may not use.
type NodeReservedMemoryResources struct {
	MemoryMB uint64
}

// NodeReservedDiskResources is the disk space that allocs may not use.
type NodeReservedDiskResources struct {
	DiskMB uint64
}

// NodeReservedNetworkResources are the ports that allocs may not use, such as
// "22,80,8500-8600".
type NodeReservedNetworkResources struct {
	ReservedHostPorts string
}
