// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// HostVolume is a directory of one node that outlives allocs. A plugin of the node has made
// it, or an operator has, who registered it. The host_volume blocks of an agent's
// configuration are no HostVolumes: see HostVolumeConfig.
type HostVolume struct {
	ID        string
	Name      string // what jobs ask for; unique on its node
	Namespace string
	PluginID  string
	NodePool  string
	NodeID    string
	// Constraints are those of the choice of the node. They have no effect later.
	Constraints               []*Constraint `json:",omitempty"`
	RequestedCapacityMinBytes int64
	RequestedCapacityMaxBytes int64
	RequestedCapabilities     []*VolumeCapability
	Parameters                map[string]string `json:",omitempty"`
	CapacityBytes             int64             // what the plugin says it has made; 0 means no limit
	HostPath                  string            `json:",omitempty"` // "" until the node has made it
	// Registered means that an operator has made the directory. Deleting the volume then
	// leaves the directory as it is.
	Registered bool `json:",omitempty"`
	// Deleting means that the node is removing the volume: nothing is placed on it.
	Deleting    bool   `json:",omitempty"`
	State       string // one of the HostVolume states; derived from the volume and its node
	CreateIndex uint64
	CreateTime  int64 // Unix ns
	ModifyIndex uint64
	ModifyTime  int64 // Unix ns
}

// States of a HostVolume.
const (
	HostVolumePending     = "pending"     // its node has not reported it yet
	HostVolumeReady       = "ready"       // its node offers it
	HostVolumeUnavailable = "unavailable" // its node offered it once and does not now, or is out of reach
	HostVolumeDeleting    = "deleting"    // its node is removing it
)

// VolumeCapability is a way in which a volume may be used.
type VolumeCapability struct {
	AttachmentMode string
	AccessMode     string
}

// Ways to attach a volume.
const (
	AttachmentFileSystem  = "file-system"
	AttachmentBlockDevice = "block-device"
)

// Ways to access a volume of one node.
const (
	AccessSingleNodeReader       = "single-node-reader-only"
	AccessSingleNodeWriter       = "single-node-writer"        // allocs of the node read and write
	AccessSingleNodeSingleWriter = "single-node-single-writer" // one alloc writes at a time
	AccessSingleNodeMultiWriter  = "single-node-multi-writer"  // several allocs write
)

// HostAccessModes are the access modes of host volumes.
var HostAccessModes = []string{AccessSingleNodeReader, AccessSingleNodeWriter, AccessSingleNodeSingleWriter, AccessSingleNodeMultiWriter}

// VolumeClaim binds an alloc's name to the volume that it got first, if the group asks for a
// sticky volume. It outlives the alloc, whose replacement gets the same volume.
type VolumeClaim struct {
	ID            string
	Namespace     string
	JobID         string
	TaskGroupName string
	AllocName     string
	AllocID       string // the newest alloc of the name
	VolumeID      string
	VolumeName    string
	CreateIndex   uint64
	ModifyIndex   uint64
}

// Slot identifies what the claim is for. There is at most one claim for it.
func (c *VolumeClaim) Slot() string {
	return strings.Join([]string{c.Namespace, c.JobID, c.TaskGroupName, c.AllocName, c.VolumeName}, "\x00")
}

// Limits of a host volume.
const (
	maxVolumeCapabilities = 16
	maxVolumeConstraints  = 64
	maxVolumeParameters   = 256
	maxVolumeTextBytes    = 16 << 10
	maxHostPathBytes      = 1024
)

var (
	// A name may end with the index of the alloc that it is for: see VolumeRequest.PerAlloc.
	hostVolumeName   = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}(\[(0|[1-9][0-9]{0,4})\])?$`)
	hostVolumePlugin = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`)
)

// IsHostVolumePlugin reports whether a name can be that of a plugin for host volumes.
func IsHostVolumePlugin(name string) bool { return hostVolumePlugin.MatchString(name) }

// IsVolumeID reports whether id has the form of a host volume's id.
func IsVolumeID(id string) bool { return isUUID(id) }

// Copy returns a volume that shares nothing with v.
func (v *HostVolume) Copy() *HostVolume { return deepCopy(v) }

// Validate returns an error if a volume that a client creates or registers is invalid.
func (v *HostVolume) Validate() error {
	var p ValidationError
	switch {
	case v.Name == "":
		p.addf("missing name")
	case !hostVolumeName.MatchString(v.Name):
		p.addf("name %.80q must be letters, digits, '.', '_' and '-', at most 128 of them, and may end with an index such as [0]", v.Name)
	}
	if v.ID != "" && !IsVolumeID(v.ID) {
		p.addf("id %.80q is not a UUID; leave it out to create a volume", v.ID)
	}
	if v.NodeID != "" && !isUUID(v.NodeID) {
		p.addf("node id %.80q is not a UUID; drover node status -verbose lists them", v.NodeID)
	}
	if v.NodePool != "" && !nodePoolRule.MatchString(v.NodePool) {
		p.addf("node pool %.80q is not a name of a pool", v.NodePool)
	}
	v.validatePlugin(&p)
	validateCapacity(&p, v.RequestedCapacityMinBytes, v.RequestedCapacityMaxBytes)
	v.validateCapabilities(&p)
	v.validateBounds(&p)
	return p.err()
}

func (v *HostVolume) validatePlugin(p *ValidationError) {
	switch {
	case v.PluginID != "" && !hostVolumePlugin.MatchString(v.PluginID):
		p.addf("plugin id %.80q is not a file name of letters, digits, '.', '_' and '-'", v.PluginID)
	case !v.Registered && v.PluginID == "":
		p.addf("missing plugin id: name the plugin that makes the volume, for example \"mkdir\"")
	case !v.Registered && v.HostPath != "":
		p.addf("host path %.80q can only be set when a volume is registered: its plugin chooses the path of one that it creates", v.HostPath)
	case v.Registered && v.NodeID == "":
		p.addf("missing node id: a volume is registered for the node that has its directory")
	case v.Registered && v.HostPath == "":
		p.addf("missing host path: a volume is registered with its directory on the node")
	case v.Registered && (!strings.HasPrefix(v.HostPath, "/") || path.Clean(v.HostPath) != v.HostPath || len(v.HostPath) > maxHostPathBytes || hasControl(v.HostPath) || strings.ContainsRune(v.HostPath, 0)):
		p.addf("host path %.80q must be absolute, without \"..\" and at most %d bytes long", v.HostPath, maxHostPathBytes)
	case v.Registered && v.HostPath == "/":
		p.addf("host path \"/\" is the whole machine; name a directory below it")
	}
}

// validateCapacity reports what is wrong with the bounds of a volume's size in bytes.
func validateCapacity(p *ValidationError, min, max int64) {
	if min < 0 || max < 0 {
		p.addf("capacity_min (%d) and capacity_max (%d) must not be negative", min, max)
	} else if max > 0 && max < min {
		p.addf("capacity_max (%d) must not be smaller than capacity_min (%d)", max, min)
	}
}

func (v *HostVolume) validateCapabilities(p *ValidationError) {
	validateVolumeCapabilities(p, v.RequestedCapabilities, func(c *VolumeCapability) {
		if c.AttachmentMode != AttachmentFileSystem {
			p.addf("invalid attachment mode: %.80q; a host volume is a directory: use %q", c.AttachmentMode, AttachmentFileSystem)
		}
		if !slices.Contains(HostAccessModes, c.AccessMode) {
			p.addf("invalid access mode: %.80q; use one of %s", c.AccessMode, strings.Join(HostAccessModes, ", "))
		}
	})
}

// validateVolumeCapabilities reports what is wrong with the capabilities that a volume must
// have; each checks one of them by the rules of its kind.
func validateVolumeCapabilities(p *ValidationError, all []*VolumeCapability, each func(*VolumeCapability)) {
	if len(all) == 0 {
		p.addf("must include at least one capability block")
	}
	if len(all) > maxVolumeCapabilities {
		p.addf("%d capabilities are more than the %d that a volume may have", len(all), maxVolumeCapabilities)
		return
	}
	for _, c := range all {
		if c == nil {
			p.addf("a capability is null; remove it")
			continue
		}
		each(c)
	}
}

func (v *HostVolume) validateBounds(p *ValidationError) {
	if len(v.Constraints) > maxVolumeConstraints {
		p.addf("%d constraints are more than the %d that a volume may have", len(v.Constraints), maxVolumeConstraints)
	} else {
		validateConstraints(p, v.Constraints)
	}
	for _, c := range v.Constraints {
		if c != nil && (c.Operand == ConstraintDistinctHosts || c.Operand == ConstraintDistinctProperty) {
			p.addf("constraint %q is about several allocs; a volume is on one node", c.Operand)
		}
	}
	if len(v.Parameters) > maxVolumeParameters {
		p.addf("%d parameters are more than the %d that a volume may have", len(v.Parameters), maxVolumeParameters)
		return
	}
	size := 0
	for key, value := range v.Parameters {
		size += len(key) + len(value)
		if key == "" || strings.ContainsRune(key+value, 0) {
			p.addf("parameter %.80q needs a name, and neither name nor value may have a null character", key)
		}
	}
	if size > maxVolumeTextBytes {
		p.addf("the parameters have %d bytes; at most %d are taken", size, maxVolumeTextBytes)
	}
}

// Refuses returns "" if the volume may be used as a group asks for it, otherwise why not.
func (v *HostVolume) Refuses(r *VolumeRequest) string {
	access, attachment := r.Modes()
	if !slices.ContainsFunc(v.RequestedCapabilities, func(c *VolumeCapability) bool {
		return c != nil && c.AccessMode == access && c.AttachmentMode == attachment
	}) {
		return "host volume " + strconv.Quote(v.Name) + " does not offer access mode " + strconv.Quote(access) + " with attachment mode " + strconv.Quote(attachment)
	}
	return ""
}

// StateOn returns the state that the volume has if n is its node; nil means that the node is
// gone.
func (v *HostVolume) StateOn(n *Node) string {
	switch {
	case v.Deleting:
		return HostVolumeDeleting
	case n != nil && n.Status != NodeStatusDown && n.Status != NodeStatusDisconnected && n.offers(v):
		return HostVolumeReady
	case v.State == "" || v.State == HostVolumePending:
		return HostVolumePending
	}
	return HostVolumeUnavailable
}

func (n *Node) offers(v *HostVolume) bool {
	on := n.HostVolumes[v.Name]
	return on != nil && on.ID == v.ID
}
