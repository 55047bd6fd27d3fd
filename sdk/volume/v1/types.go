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
	// Name is the plugin's name in volume specifications and in the agent's
	// configuration.
	Name         string
	Capabilities []Capability
	ConfigSchema schema.Schema
}

// Capability is an optional feature of a plugin. NodePublish and NodeUnpublish are not
// optional.
type Capability string

// The capabilities, each with the methods that it covers.
const (
	CanCreate       Capability = "create"        // Create, Delete
	CanList         Capability = "list"          // List
	CanCapacity     Capability = "capacity"      // Capacity
	CanExpand       Capability = "expand"        // Expand of volumes that are not published
	CanExpandOnline Capability = "expand_online" // Expand of published volumes
	CanSnapshot     Capability = "snapshot"      // CreateSnapshot, DeleteSnapshot
	CanListSnapshot Capability = "list_snapshot" // ListSnapshots
	CanClone        Capability = "clone"         // Create with SourceVolume
	CanAttach       Capability = "attach"        // ControllerPublish, ControllerUnpublish
	CanStage        Capability = "stage"         // NodeStage, NodeUnstage
	CanNodeExpand   Capability = "node_expand"   // NodeExpand
	CanNodeStats    Capability = "node_stats"    // NodeStats
	HasTopology     Capability = "topology"      // Fingerprint and Create report locations
)

// Health is a plugin's own view of its health on this node.
type Health string

// The health states. A plugin that is undetected is not offered to the scheduler.
const (
	HealthUndetected Health = "undetected"
	HealthUnhealthy  Health = "unhealthy"
	HealthHealthy    Health = "healthy"
)

// Fingerprint is the state of the plugin on a node. NodeID is the node's name in the
// storage system. MaxVolumes is the maximum number of volumes on the node; 0 means no
// limit.
type Fingerprint struct {
	Health            Health
	HealthDescription string
	NodeID            string
	Topology          Topology
	MaxVolumes        int64
}

// Topology is a location, such as {"zone": "a"}.
type Topology map[string]string

// TopologyRequirement says where a volume is needed: it must be reachable from one of
// Required. Preferred lists locations in order of preference.
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

// Attachment says in which form a task sees a volume.
type Attachment string

// The attachments.
const (
	AttachmentFileSystem  Attachment = "file-system"
	AttachmentBlockDevice Attachment = "block-device"
)

// Access says how a volume is used. FSType and MountFlags apply to file systems; an
// empty FSType leaves the choice to the plugin.
type Access struct {
	Mode       AccessMode
	Attachment Attachment
	FSType     string
	MountFlags []string
}

// Secrets are the secrets for one call. They are hidden when printed.
type Secrets map[string]string

// String hides the values from logs and errors.
func (Secrets) String() string { return "(secrets)" }

// GoString hides the values as String does.
func (Secrets) GoString() string { return "(secrets)" }

// LogValue hides the values as String does.
func (Secrets) LogValue() slog.Value { return slog.StringValue("(secrets)") }

// CapacityRange is the requested size in bytes; a Limit of 0 means no limit.
type CapacityRange struct {
	RequiredBytes int64
	LimitBytes    int64
}

// CreateRequest describes the volume to create. At most one of the sources is set.
// Access lists every way in which the volume will be used.
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

// Description describes a volume in the storage system. Context is opaque to the host,
// contains no secrets, and is passed to the calls that follow. Problem says what is
// wrong with the volume.
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

// CapacityRequest says for which kind of volumes the capacity is requested; a nil
// Topology means anywhere.
type CapacityRequest struct {
	Access     []Access
	Parameters map[string]string
	Topology   Topology
}

// Capacity is the available space; MaxVolumeBytes is nil if it is not known.
type Capacity struct {
	AvailableBytes int64
	MaxVolumeBytes *int64
}

// ExpandRequest is the requested size of a volume.
type ExpandRequest struct {
	ID       string
	Capacity CapacityRange
	Access   Access
	Secrets  Secrets
}

// Expansion is the result of Expand. NodeExpansionRequired means that NodeExpand must
// follow on the node.
type Expansion struct {
	CapacityBytes         int64
	NodeExpansionRequired bool
}

// SnapshotRequest describes the snapshot to create.
type SnapshotRequest struct {
	Name       string
	VolumeID   string
	Parameters map[string]string
	Secrets    Secrets
}

// Snapshot is a snapshot in the storage system. It can be used as a source once it is
// Ready.
type Snapshot struct {
	ID        string
	VolumeID  string
	SizeBytes int64
	CreatedAt time.Time
	Ready     bool
}

// ControllerPublishRequest says which node is to use a volume, and how.
type ControllerPublishRequest struct {
	ID       string
	NodeID   string // Fingerprint.NodeID of the node
	Access   Access
	ReadOnly bool
	Context  map[string]string
	Secrets  Secrets
}

// NodeStageRequest says what to stage where. PublishContext is the result of
// ControllerPublish, nil if the plugin does not have that step.
type NodeStageRequest struct {
	ID             string
	StagingPath    string
	Access         Access
	Context        map[string]string
	PublishContext map[string]string
	Secrets        Secrets
}

// NodePublishRequest says what to mount where for a task. StagingPath is "" for
// plugins without staging.
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

// NodeExpandRequest says which file system to grow.
type NodeExpandRequest struct {
	ID          string
	TargetPath  string
	StagingPath string
	Capacity    CapacityRange
	Access      Access
}

// Stats is the usage of a volume. The inode fields are 0 if there is no limit.
type Stats struct {
	TotalBytes     int64
	UsedBytes      int64
	AvailableBytes int64
	TotalInodes    int64
	UsedInodes     int64
	Problem        string
}
