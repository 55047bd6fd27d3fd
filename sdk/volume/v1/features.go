// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"slices"

	"github.com/drover-project/drover/sdk/internal/feature"
)

// Feature is the name of an optional ability: an interface that a storage plugin may
// implement in addition to Volume. Service finds it by a type assertion and announces it to
// the host. A wrapper type must therefore implement what the type in it does.
type Feature string

// Capability is something that a plugin can do here and now: a feature, or a property of
// one that has no calls of its own.
type Capability string

// The capabilities with calls of their own, which are also the features.
const (
	CanCreate        Capability = "create"         // Creator
	CanValidate      Capability = "validate"       // Validator
	CanList          Capability = "list"           // Lister
	CanGet           Capability = "get"            // Getter
	CanCapacity      Capability = "capacity"       // Sizer
	CanExpand        Capability = "expand"         // Expander
	CanModify        Capability = "modify"         // Modifier
	CanSnapshot      Capability = "snapshot"       // Snapshotter
	CanListSnapshots Capability = "list_snapshots" // SnapshotLister
	CanAttach        Capability = "attach"         // Attacher
	CanStage         Capability = "stage"          // Stager
	CanNodeExpand    Capability = "node_expand"    // NodeExpander
	CanStats         Capability = "stats"          // Meter
)

// The capabilities without calls of their own. A fingerprint lists those that it has.
const (
	// CanClone: Create takes SourceVolume.
	CanClone Capability = "clone"
	// CanExpandOnline: Expand works while a node has the volume.
	CanExpandOnline Capability = "expand_online"
	// CanAttachReadOnly: Attach takes ReadOnly.
	CanAttachReadOnly Capability = "attach_read_only"
	// CanPublishedNodes: descriptions say which nodes have a volume.
	CanPublishedNodes Capability = "published_nodes"
	// CanCondition: descriptions say whether a volume is healthy. CanNodeCondition: Stats
	// do.
	CanCondition     Capability = "condition"
	CanNodeCondition Capability = "node_condition"
	// CanSingleNodeMultiWriter: the modes SingleNodeSingleWriter and SingleNodeMultiWriter
	// can be used.
	CanSingleNodeMultiWriter Capability = "single_node_multi_writer"
	// CanMountGroup: Access may have a MountGroup.
	CanMountGroup Capability = "mount_group"
	// HasController: volumes need calls that are no node's, though perhaps another process
	// of the storage driver answers them.
	HasController Capability = "controller"
	// HasTopology: it matters from where a volume is used.
	HasTopology Capability = "topology"
)

// abilities has a row for each optional interface. The host acts on each.
var abilities = []feature.Row[Volume, Feature]{
	{Feature: Feature(CanCreate), Has: feature.Implements[Creator, Volume]},
	{Feature: Feature(CanValidate), Has: feature.Implements[Validator, Volume]},
	{Feature: Feature(CanList), Has: feature.Implements[Lister, Volume]},
	{Feature: Feature(CanGet), Has: feature.Implements[Getter, Volume]},
	{Feature: Feature(CanCapacity), Has: feature.Implements[Sizer, Volume]},
	{Feature: Feature(CanExpand), Has: feature.Implements[Expander, Volume]},
	{Feature: Feature(CanModify), Has: feature.Implements[Modifier, Volume]},
	{Feature: Feature(CanSnapshot), Has: feature.Implements[Snapshotter, Volume]},
	{Feature: Feature(CanListSnapshots), Has: feature.Implements[SnapshotLister, Volume]},
	{Feature: Feature(CanAttach), Has: feature.Implements[Attacher, Volume]},
	{Feature: Feature(CanStage), Has: feature.Implements[Stager, Volume]},
	{Feature: Feature(CanNodeExpand), Has: feature.Implements[NodeExpander, Volume]},
	{Feature: Feature(CanStats), Has: feature.Implements[Meter, Volume]},
}

// Features returns the optional abilities of a plugin: what its Go type implements, or what
// it announced if it runs in another process.
func Features(v Volume) []Feature { return feature.Of(abilities, v) }

// KnownFeatures returns the features of this version of the contract. A host acts on all
// of them.
func KnownFeatures() []Feature { return feature.Names(abilities) }

// Can reports whether a fingerprint lists a capability.
func (f Fingerprint) Can(c Capability) bool { return slices.Contains(f.Capabilities, c) }

// Full is a plugin with every optional ability, as a host sees one in another process. What
// the plugin does not have returns Unimplemented.
type Full interface {
	Volume
	Creator
	Validator
	Lister
	Getter
	Sizer
	Expander
	Modifier
	Snapshotter
	SnapshotLister
	Attacher
	Stager
	NodeExpander
	Meter
}
