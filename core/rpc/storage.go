// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"

	"google.golang.org/grpc"

	"github.com/drover-project/drover/core/model"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

// The types of storage plugins that the answers to StorageCalls have.
type (
	StorageAccess       = volume.Access
	StorageCapacity     = volume.CapacityRange
	StorageTopology     = volume.Topology
	StorageTopologies   = volume.TopologyRequirement
	StorageDescription  = volume.Description
	StorageExpansion    = volume.Expansion
	StorageSnapshot     = volume.Snapshot
	StorageVolumePage   = volume.VolumePage
	StorageSnapshotPage = volume.SnapshotPage
)

// NewStorageAccess returns how a volume is used, from the words of a specification. The mount
// options of a volume are for its uses with a file system.
func NewStorageAccess(mode, attachment string, options model.CSIMountOptions) StorageAccess {
	if attachment == model.AttachmentBlockDevice {
		options = model.CSIMountOptions{}
	}
	return StorageAccess{Mode: volume.AccessMode(mode), Attachment: volume.Attachment(attachment), FSType: options.FSType, MountFlags: options.MountFlags}
}

// StorageCall is a call of servers to a storage plugin of a node. Plugin is its id; a node
// that does not run it, or runs it without the part that the method needs, answers NotFound.
// The other fields are those of the request that volume.Volume takes for the method, and
// are zero if it has none of the name. Class and reason of the plugin's error are the
// answer's.
//
// MethodCSIRelease ends everything that the node has of the volume ID and that no living
// alloc of it uses: what is published is unpublished, and then the volume is unstaged.
// It is nil if the node has nothing of it, and FailedPrecondition if a living alloc uses it.
// MethodCSINodeExpand grows what the node has of a volume; nil if it has nothing of it.
type StorageCall struct {
	Plugin         string
	ID             string                      `json:",omitempty"` // of the volume, or of the snapshot, in the storage system
	Name           string                      `json:",omitempty"`
	NodeID         string                      `json:",omitempty"` // in the storage system
	Access         []volume.Access             `json:",omitempty"`
	Capacity       volume.CapacityRange        `json:",omitzero"`
	Parameters     map[string]string           `json:",omitempty"`
	Context        map[string]string           `json:",omitempty"`
	Topology       *volume.TopologyRequirement `json:",omitempty"`
	SourceSnapshot string                      `json:",omitempty"`
	SourceVolume   string                      `json:",omitempty"` // of a clone, and the volume of a snapshot
	ReadOnly       bool                        `json:",omitempty"`
	Limit          int                         `json:",omitempty"` // of a list
	After          string                      `json:",omitempty"` // of a list
	Secrets        model.VolumeSecrets         `json:",omitempty"`
}

// StorageAttached is the answer to MethodCSIAttach.
type StorageAttached struct {
	PublishContext map[string]string
}

// StorageExpanded is the answer to MethodCSINodeExpand; 0 means that the size is not known.
type StorageExpanded struct {
	CapacityBytes int64
}

// VolumeQuery asks for a volume of type csi that an alloc of the node needs. Volume is the
// name of the request in the group.
type VolumeQuery struct {
	AllocID string
	Volume  string
}

// VolumeGrant is a volume that an alloc may use now: it is attached to the node, if its
// plugin attaches volumes, and nobody uses it in a way that excludes the alloc. It is the
// alloc's until the node reports that the alloc has ended. So a node reports the end of an
// alloc only when it has unpublished the volumes of the alloc, and has unstaged those that
// no other alloc of the node uses.
type VolumeGrant struct {
	Namespace      string
	ID             string // what jobs ask for
	ExternalID     string // of the storage system
	Plugin         string // id of the storage plugin, which is in the node's CSINodePlugins
	Access         volume.Access
	ReadOnly       bool
	Context        map[string]string
	PublishContext map[string]string
	CapacityBytes  int64 // 0 means that it is not known
	Secrets        model.VolumeSecrets
}

const methodClaimVolume = "ClaimVolume"

type claimVolumeMessage struct {
	ID    Identity
	Query VolumeQuery
}

func claimVolumeMethod() grpc.MethodDesc {
	return unary(methodClaimVolume, func(ctx context.Context, s Servers, m *claimVolumeMessage) (*VolumeGrant, error) {
		grant, err := s.ClaimVolume(ctx, m.ID, m.Query)
		return &grant, err
	})
}

// ClaimVolume implements Servers.
func (c *Client) ClaimVolume(ctx context.Context, id Identity, q VolumeQuery) (grant VolumeGrant, err error) {
	err = c.ask(ctx, id, methodClaimVolume, &claimVolumeMessage{ID: id, Query: q}, &grant)
	return grant, err
}
