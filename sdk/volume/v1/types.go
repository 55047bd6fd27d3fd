// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"time"

	"github.com/drover-project/drover/sdk/schema"
)

// Info describes a storage plugin.
type Info struct {
	// Name is the plugin's name in specifications of volumes and in the agent's
	// configuration.
	Name         string
	ConfigSchema schema.Schema
	// Features are what the plugin announces. Service fills it in.
	Features []Feature
}

// Fingerprint is what a plugin can do on this machine now.
type Fingerprint struct {
	// Provider and ProviderVersion name the storage driver, such as
	// "hostpath.csi.k8s.io"; "" if it is the plugin itself.
	Provider        string
	ProviderVersion string
	// Capabilities are what the plugin can do here now. nil means all of its features.
	Capabilities []Capability
	// Node describes this node to the storage system; nil if volumes cannot be published
	// here.
	Node *Node
	// Problem says why the plugin cannot be used now, for a person; "" if it can. The
	// rest is then what was last known.
	Problem string
}

// Node is a node as the storage system knows it.
type Node struct {
	// ID is the node's name in the storage system.
	ID string
	// MaxVolumes is the largest number of volumes at the node; 0 means no limit.
	MaxVolumes int64
	// Topology is the location of the node; nil if locations do not matter.
	Topology Topology
}

// Topology is a location, such as {"zone": "a"}.
type Topology map[string]string

// TopologyRequirement says where a volume is needed: it must be usable from at least one
// of Required. Preferred lists locations in order of preference.
type TopologyRequirement struct {
	Required  []Topology
	Preferred []Topology
}

// AccessMode says who may use a volume at the same time.
type AccessMode string

// The access modes, in the words of a volume's specification. The last two need
// CanSingleNodeMultiWriter: one writer on one node, and several on one node.
const (
	SingleNodeReader       AccessMode = "single-node-reader-only"
	SingleNodeWriter       AccessMode = "single-node-writer"
	MultiNodeReader        AccessMode = "multi-node-reader-only"
	MultiNodeSingleWriter  AccessMode = "multi-node-single-writer"
	MultiNodeMultiWriter   AccessMode = "multi-node-multi-writer"
	SingleNodeSingleWriter AccessMode = "single-node-single-writer"
	SingleNodeMultiWriter  AccessMode = "single-node-multi-writer"
)

// AccessModes returns all access modes.
func AccessModes() []AccessMode {
	return []AccessMode{SingleNodeReader, SingleNodeWriter, MultiNodeReader, MultiNodeSingleWriter, MultiNodeMultiWriter, SingleNodeSingleWriter, SingleNodeMultiWriter}
}

// Attachment says in which form a task sees a volume.
type Attachment string

// The attachments.
const (
	AttachmentFileSystem  Attachment = "file-system"
	AttachmentBlockDevice Attachment = "block-device"
)

// Access says how a volume is used.
type Access struct {
	Mode       AccessMode
	Attachment Attachment
	// FSType is the type of the file system; "" leaves it to the plugin. MountFlags are
	// options of mount. Both apply to AttachmentFileSystem only. Flags may contain
	// secrets.
	FSType     string
	MountFlags []string
	// MountGroup is the id of the group to which files belong (CanMountGroup); "" leaves
	// it.
	MountGroup string
}

// CapacityRange is a size in bytes. 0 means that the size does not matter (Required), or
// that there is no limit.
type CapacityRange struct {
	RequiredBytes int64
	LimitBytes    int64
}

// CreateRequest describes the volume to make.
type CreateRequest struct {
	Name     string
	Capacity CapacityRange
	// Access lists every way in which the volume will be used; at least one.
	Access     []Access
	Parameters map[string]string
	Secrets    Secrets
	// Topology says where it is needed; nil means that it does not matter.
	Topology *TopologyRequirement
	// SourceSnapshot (CanSnapshot) or SourceVolume (CanClone) is what the volume begins
	// with; "" means nothing. At most one is set.
	SourceSnapshot string
	SourceVolume   string
}

// Description describes a volume of the storage system.
type Description struct {
	ID            string
	CapacityBytes int64 // 0 means that it is not known
	// Context belongs to the volume and is passed to the calls that follow. It contains
	// no secrets.
	Context map[string]string
	// Topologies are the locations from which it can be used; none means everywhere.
	Topologies     []Topology
	SourceSnapshot string
	SourceVolume   string
	// PublishedNodes are the ids of the nodes that have it (CanPublishedNodes).
	PublishedNodes []string
	// Condition is nil if it is not known (CanCondition).
	Condition *Condition
}

// Condition is the health of a volume.
type Condition struct {
	Abnormal bool
	Message  string
}

// ValidateRequest asks whether a volume can be used in some ways.
type ValidateRequest struct {
	ID         string
	Access     []Access
	Context    map[string]string
	Parameters map[string]string
	Secrets    Secrets
}

// PageRequest asks for a page of a list. Limit 0 leaves the number to the plugin, which may
// also return fewer. After is Next of the page before, "" for the first.
type PageRequest struct {
	Limit int
	After string
}

// VolumePage is a page of volumes. Next is "" at the end.
type VolumePage struct {
	Volumes []Description
	Next    string
}

// CapacityRequest says for which volumes there should be space.
type CapacityRequest struct {
	Access     []Access
	Parameters map[string]string
	Topology   Topology // nil means anywhere
}

// Capacity is the free space. MaxVolumeBytes and MinVolumeBytes are the sizes between which
// one volume can be made; nil means that it is not known.
type Capacity struct {
	AvailableBytes int64
	MaxVolumeBytes *int64
	MinVolumeBytes *int64
}

// ExpandRequest is the size that a volume shall have.
type ExpandRequest struct {
	ID       string
	Capacity CapacityRange
	Access   Access // how it is used
	Secrets  Secrets
}

// Expansion is the result of Expand. NodeExpansion means that NodeExpand must follow on
// each node that has the volume.
type Expansion struct {
	CapacityBytes int64
	NodeExpansion bool
}

// ModifyRequest has parameters that a volume shall have.
type ModifyRequest struct {
	ID         string
	Parameters map[string]string
	Secrets    Secrets
}

// SnapshotRequest describes the snapshot to make.
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
	SizeBytes int64 // what a volume made of it needs; 0 means that it is not known
	CreatedAt time.Time
	Ready     bool
}

// SnapshotPageRequest asks for a page of snapshots: of one volume, of one id, or all.
type SnapshotPageRequest struct {
	PageRequest
	VolumeID   string
	SnapshotID string
	Secrets    Secrets
}

// SnapshotPage is a page of snapshots. Next is "" at the end.
type SnapshotPage struct {
	Snapshots []Snapshot
	Next      string
}

// AttachRequest asks to attach a volume to a node.
type AttachRequest struct {
	ID       string
	NodeID   string // Node.ID of its fingerprint
	Access   Access
	ReadOnly bool // only with CanAttachReadOnly
	Context  map[string]string
	Secrets  Secrets
}

// DetachRequest asks to detach a volume from a node; NodeID "" means from every node.
type DetachRequest struct {
	ID      string
	NodeID  string
	Secrets Secrets
}

// StageRequest says what to prepare where. PublishContext is the result of Attach; nil if
// the plugin does not have that step.
type StageRequest struct {
	ID             string
	StagingPath    string
	Access         Access
	Context        map[string]string
	PublishContext map[string]string
	Secrets        Secrets
}

// PublishRequest says what to bring where. StagingPath is "" for plugins without Stage.
type PublishRequest struct {
	ID             string
	StagingPath    string
	TargetPath     string
	Access         Access
	ReadOnly       bool // nothing can be written below TargetPath; a plugin that cannot do this refuses it with Unimplemented
	Context        map[string]string
	PublishContext map[string]string
	Secrets        Secrets
}

// Publication is what a node has of a volume.
type Publication struct {
	ID          string
	StagingPath string   // "" if it is not staged
	TargetPaths []string // in order
}

// NodeExpandRequest says what to grow. Path is where the volume is published, or the
// staging path if it is only staged.
type NodeExpandRequest struct {
	ID          string
	Path        string
	StagingPath string
	Capacity    CapacityRange
	Access      Access
	Secrets     Secrets
}

// StatsRequest says which volume to measure. StagingPath is "" for plugins without Stage.
type StatsRequest struct {
	ID          string
	Path        string
	StagingPath string
}

// Stats is the usage of a volume. A nil part is not known. Condition is nil without
// CanNodeCondition.
type Stats struct {
	Bytes     *Usage
	Inodes    *Usage
	Condition *Condition
}

// Usage is in bytes, or in inodes.
type Usage struct {
	Total     int64
	Used      int64
	Available int64
}
