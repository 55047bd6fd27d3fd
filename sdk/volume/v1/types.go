// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"log/slog"
	"time"

	"github.com/drover-project/drover/sdk/schema"
)

// Info describes a volume plugin.
type Info struct {
	// Name is what a volume's specification and the agent's configuration call it.
	Name         string
	Capabilities []Capability
	ConfigSchema schema.Schema
}

// Capability is something that a plugin can do beside NodePublish and NodeUnpublish,
// which all can.
type Capability string

// The capabilities, each with the methods that it stands for.
const (
	CanCreate       Capability = "create"        // Create, Delete
	CanList         Capability = "list"          // List
	CanCapacity     Capability = "capacity"      // Capacity
	CanExpand       Capability = "expand"        // Expand of volumes that are not published
	CanExpandOnline Capability = "expand_online" // Expand while they are
	CanSnapshot     Capability = "snapshot"      // CreateSnapshot, DeleteSnapshot
	CanListSnapshot Capability = "list_snapshot" // ListSnapshots
	CanClone        Capability = "clone"         // Create with SourceVolume
	CanAttach       Capability = "attach"        // ControllerPublish, ControllerUnpublish
	CanStage        Capability = "stage"         // NodeStage, NodeUnstage
	CanNodeExpand   Capability = "node_expand"   // NodeExpand
	CanNodeStats    Capability = "node_stats"    // NodeStats
	HasTopology     Capability = "topology"      // Fingerprint and Create say where
)

// Health is what a plugin thinks of itself on this node.
type Health string

// The healths. An undetected plugin is not offered to the scheduler at all.
const (
	HealthUndetected Health = "undetected"
	HealthUnhealthy  Health = "unhealthy"
	HealthHealthy    Health = "healthy"
)

// Fingerprint is how the plugin is on a node. NodeID is the node's name in the storage
// system; MaxVolumes is how many it can have at once, 0 for no bound.
type Fingerprint struct {
	Health            Health
	HealthDescription string
	NodeID            string
	Topology          Topology
	MaxVolumes        int64
}

// Topology is where something is or can be reached from, as {"zone": "a"}.
type Topology map[string]string

// TopologyRequirement is where a volume is needed: it must be reachable from one of
// Required, and the first of Preferred that can be is the best.
type TopologyRequirement struct {
	Required  []Topology
	Preferred []Topology
}

// AccessMode says who may use a volume at the same time.
type AccessMode string

// The access modes, in the words of a volume's specification.
const (
	SingleNodeReader AccessMode = "single-node-reader-only"
	SingleNodeWriter AccessMode = "single-node-writer"
	MultiNodeReader  AccessMode = "multi-node-reader-only"
	MultiNodeSingle  AccessMode = "multi-node-single-writer"
	MultiNodeMulti   AccessMode = "multi-node-multi-writer"
)

// Attachment says as what a task sees a volume.
type Attachment string

// The attachments.
const (
	AttachmentFileSystem  Attachment = "file-system"
	AttachmentBlockDevice Attachment = "block-device"
)

// Access is how a volume is to be used. FSType and MountFlags are for file systems;
// an empty FSType is the plugin's choice.
type Access struct {
	Mode       AccessMode
	Attachment Attachment
	FSType     string
	MountFlags []string
}

// Secrets are for one call. They do not show when they are printed.
type Secrets map[string]string

// String hides the values from logs and errors.
func (Secrets) String() string { return "(secrets)" }

// GoString hides the values as String does.
func (Secrets) GoString() string { return "(secrets)" }

// LogValue hides the values as String does.
func (Secrets) LogValue() slog.Value { return slog.StringValue("(secrets)") }

// CapacityRange is what size is asked for, in bytes; a Limit of 0 is none.
type CapacityRange struct {
	RequiredBytes int64
	LimitBytes    int64
}

// CreateRequest is what Create makes. Of the sources one at most is set. Access is
// every way in which the volume will be used.
type CreateRequest struct {
	Name           string
	Capacity       CapacityRange
	Access         []Access
	Parameters     map[string]string
	Secrets        Secrets
	Topology       TopologyRequirement
	SourceSnapshot string
	SourceVolume   string
}

// Description is a volume in the storage system. Context is the plugin's own, of no
// secrets, and is given to the calls that follow. Problem says what is wrong with it.
type Description struct {
	ID             string
	CapacityBytes  int64
	Context        map[string]string
	Topologies     []Topology
	SourceSnapshot string
	SourceVolume   string
	PublishedNodes []string
	Problem        string
}

// CapacityRequest is what kind of volumes Capacity is asked for; Topology nil: anywhere.
type CapacityRequest struct {
	Access     []Access
	Parameters map[string]string
	Topology   Topology
}

// Capacity is how much room there is; MaxVolumeBytes is nil where that is not known.
type Capacity struct {
	AvailableBytes int64
	MaxVolumeBytes *int64
}

// ExpandRequest is how large a volume is to be.
type ExpandRequest struct {
	ID       string
	Capacity CapacityRange
	Access   Access
	Secrets  Secrets
}

// Expansion is what came of it; NodeExpansionRequired: the node has to follow.
type Expansion struct {
	CapacityBytes         int64
	NodeExpansionRequired bool
}

// SnapshotRequest is what CreateSnapshot makes.
type SnapshotRequest struct {
	Name       string
	VolumeID   string
	Parameters map[string]string
	Secrets    Secrets
}

// Snapshot is a snapshot in the storage system; it can be a source once it is Ready.
type Snapshot struct {
	ID        string
	VolumeID  string
	SizeBytes int64
	CreatedAt time.Time
	Ready     bool
}

// ControllerPublishRequest is which node is to use a volume, and how.
type ControllerPublishRequest struct {
	ID       string
	NodeID   string // Fingerprint.NodeID of that node
	Access   Access
	ReadOnly bool
	Context  map[string]string
	Secrets  Secrets
}

// NodeStageRequest is what is staged where. PublishContext is what ControllerPublish
// answered, nil without it.
type NodeStageRequest struct {
	ID             string
	StagingPath    string
	Access         Access
	Context        map[string]string
	PublishContext map[string]string
	Secrets        Secrets
}

// NodePublishRequest is what a task is shown where. StagingPath is "" without staging.
type NodePublishRequest struct {
	ID             string
	StagingPath    string
	TargetPath     string
	Access         Access
	ReadOnly       bool
	Context        map[string]string
	PublishContext map[string]string
	Secrets        Secrets
}

// NodeExpandRequest is which file system is to grow.
type NodeExpandRequest struct {
	ID          string
	TargetPath  string
	StagingPath string
	Capacity    CapacityRange
	Access      Access
}

// Stats is how full a volume is. Inodes are 0 where they have no bound.
type Stats struct {
	TotalBytes     int64
	UsedBytes      int64
	AvailableBytes int64
	TotalInodes    int64
	UsedInodes     int64
	Problem        string
}
