// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "time"

// CSIInfo is a node's report on a CSI driver that one of its allocs runs: in
// Node.CSIControllerPlugins with ControllerInfo, and in Node.CSINodePlugins with NodeInfo.
// Both maps have it by PluginID. A node reports a driver from its first healthy probe until
// its alloc ends.
type CSIInfo struct {
	PluginID          string
	AllocID           string
	Healthy           bool
	HealthDescription string
	UpdateTime        time.Time // when Healthy changed
	Provider          string    // name of the driver, in its own words
	ProviderVersion   string
	// RequiresControllerPlugin means that the driver has a controller's part.
	// RequiresTopologies means that some nodes may be unable to use a volume because of where
	// they are.
	RequiresControllerPlugin bool
	RequiresTopologies       bool
	ControllerInfo           *CSIControllerInfo `json:",omitempty"`
	NodeInfo                 *CSINodeInfo       `json:",omitempty"`
}

// CSIControllerInfo is what the controller's part of a driver can do.
type CSIControllerInfo struct {
	SupportsAttachDetach             bool
	SupportsClone                    bool
	SupportsCondition                bool
	SupportsCreateDelete             bool
	SupportsCreateDeleteSnapshot     bool
	SupportsExpand                   bool
	SupportsGet                      bool
	SupportsGetCapacity              bool
	SupportsListSnapshots            bool
	SupportsListVolumes              bool
	SupportsListVolumesAttachedNodes bool
	SupportsReadOnlyAttach           bool
	// SupportsExpandOnline means that a volume can grow while a node has it.
	SupportsExpandOnline bool `json:",omitempty"`
	// SupportsSingleNodeMultiWriter means that the controller takes the access modes
	// single-node-single-writer and single-node-multi-writer.
	SupportsSingleNodeMultiWriter bool `json:",omitempty"`
}

// Creates reports whether the controller makes and removes volumes.
func (c *CSIControllerInfo) Creates() bool { return c.SupportsCreateDelete }

// CSINodeInfo is the node as the driver's storage system knows it, and what the node's part
// of the driver can do.
type CSINodeInfo struct {
	ID                            string // of the node, in the storage system
	MaxVolumes                    int64  // on the node; math.MaxInt64 means no limit
	AccessibleTopology            *CSITopology
	RequiresNodeStageVolume       bool
	SupportsCondition             bool
	SupportsExpand                bool
	SupportsStats                 bool
	SupportsSingleNodeMultiWriter bool `json:",omitempty"` // see CSIControllerInfo
	SupportsMountGroup            bool `json:",omitempty"`
}

// CSITopology is a location of a storage system, such as {"zone": "a"}.
type CSITopology struct {
	Segments map[string]string
}

// Within reports whether a location t of a node satisfies the location that a volume is
// accessible from: it has all its segments. nil needs nothing.
func (t *CSITopology) Within(volume *CSITopology) bool {
	if volume == nil {
		return true
	}
	for key, value := range volume.Segments {
		if t == nil || t.Segments[key] != value {
			return false
		}
	}
	return true
}
