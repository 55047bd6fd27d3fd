// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package volume is the core's interface to storage plugins. It owns that interface and the
// adapter for the contract (v1.go). It does not own processes (core/pluginhost does), nor
// who uses a volume and when it is staged and released.
package volume

import (
	v1 "github.com/drover-project/drover/sdk/volume/v1"
)

// Backend is a storage plugin in one process. Its methods have the semantics of
// sdk/volume/v1; one whose capability the fingerprint does not list returns Unimplemented.
type Backend = v1.Full

// The types of the newest contract.
type (
	Info                = v1.Info
	Fingerprint         = v1.Fingerprint
	Node                = v1.Node
	Capability          = v1.Capability
	Topology            = v1.Topology
	TopologyRequirement = v1.TopologyRequirement
	Access              = v1.Access
	AccessMode          = v1.AccessMode
	Attachment          = v1.Attachment
	CapacityRange       = v1.CapacityRange
	Secrets             = v1.Secrets
	Description         = v1.Description
	Condition           = v1.Condition
	CreateRequest       = v1.CreateRequest
	ValidateRequest     = v1.ValidateRequest
	PageRequest         = v1.PageRequest
	VolumePage          = v1.VolumePage
	CapacityRequest     = v1.CapacityRequest
	Capacity            = v1.Capacity
	ExpandRequest       = v1.ExpandRequest
	Expansion           = v1.Expansion
	ModifyRequest       = v1.ModifyRequest
	SnapshotRequest     = v1.SnapshotRequest
	Snapshot            = v1.Snapshot
	SnapshotPageRequest = v1.SnapshotPageRequest
	SnapshotPage        = v1.SnapshotPage
	AttachRequest       = v1.AttachRequest
	DetachRequest       = v1.DetachRequest
	StageRequest        = v1.StageRequest
	PublishRequest      = v1.PublishRequest
	Publication         = v1.Publication
	NodeExpandRequest   = v1.NodeExpandRequest
	StatsRequest        = v1.StatsRequest
	Stats               = v1.Stats
	Usage               = v1.Usage
)

// The capabilities of the newest contract.
const (
	CanCreate                = v1.CanCreate
	CanValidate              = v1.CanValidate
	CanList                  = v1.CanList
	CanGet                   = v1.CanGet
	CanCapacity              = v1.CanCapacity
	CanExpand                = v1.CanExpand
	CanModify                = v1.CanModify
	CanSnapshot              = v1.CanSnapshot
	CanListSnapshots         = v1.CanListSnapshots
	CanAttach                = v1.CanAttach
	CanStage                 = v1.CanStage
	CanNodeExpand            = v1.CanNodeExpand
	CanStats                 = v1.CanStats
	CanClone                 = v1.CanClone
	CanExpandOnline          = v1.CanExpandOnline
	CanAttachReadOnly        = v1.CanAttachReadOnly
	CanPublishedNodes        = v1.CanPublishedNodes
	CanCondition             = v1.CanCondition
	CanNodeCondition         = v1.CanNodeCondition
	CanSingleNodeMultiWriter = v1.CanSingleNodeMultiWriter
	CanMountGroup            = v1.CanMountGroup
	HasController            = v1.HasController
	HasTopology              = v1.HasTopology
)

// AttachmentBlockDevice is the attachment of volumes that are device files.
const AttachmentBlockDevice = v1.AttachmentBlockDevice

// ReasonInUse is the reason of an error that says that a volume is in use.
const ReasonInUse = v1.ReasonInUse

// ReasonNotStaged is the reason of an error that says that a volume must be staged first.
const ReasonNotStaged = v1.ReasonNotStaged

// KnownFeatures returns the optional abilities of storage plugins on which the host acts.
func KnownFeatures() []v1.Feature { return v1.KnownFeatures() }
