// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"maps"
	"slices"
	"strings"
)

// CSIVolume is a volume of a storage system that a CSI driver reaches. Allocs that have not
// ended hold it: who uses it is derived from them, and nothing of it is stored here.
type CSIVolume struct {
	ID         string // what jobs ask for; unique in its namespace
	Namespace  string
	Name       string
	ExternalID string // of the storage system; "" until it is created
	PluginID   string // id of the CSI driver

	RequestedCapacityMin  int64
	RequestedCapacityMax  int64
	RequestedCapabilities []*VolumeCapability
	RequestedTopologies   *CSITopologyRequest
	MountOptions          *CSIMountOptions
	Parameters            map[string]string
	SnapshotID            string // what it begins with: a snapshot or a volume of the storage system
	CloneID               string

	Capacity   int64             // bytes; 0 means that it is not known
	Context    map[string]string // of the driver, for all later calls
	Topologies []*CSITopology    // from where it can be used; none means from everywhere

	// SealedSecrets are the secrets for calls to the driver, encrypted with the root key
	// SecretsKeyID.
	SecretsKeyID  string `json:"-"`
	SealedSecrets []byte `json:"-"`

	// Attachments are the nodes to which the controller may have attached the volume, by
	// node. An entry is made before the controller is asked to attach and removed after it
	// has detached, so it survives the alloc, the node and a crash of the servers.
	Attachments map[string]*CSIAttachment `json:",omitempty"`
	// State is "", or what servers are doing with the storage system.
	State       string `json:",omitempty"`
	CreateIndex uint64
	ModifyIndex uint64
	CreateTime  int64 // Unix ns
	ModifyTime  int64 // Unix ns

	// Driver is the name that the driver of the volume gave itself when it was created or
	// registered: another driver with the id PluginID has nothing to do with it. "" is one that
	// is not known.
	Driver string `json:"-"`
	// Attaches means that a controller of the driver attached volumes to nodes when the volume
	// was created or registered. It counts while no controller runs.
	Attaches bool `json:"-"`
}

// States of a CSIVolume in which nothing may be placed on it.
const (
	CSIVolumeCreating = "creating" // its driver was asked to make it and has not answered
	CSIVolumeDeleting = "deleting" // its driver was asked to remove it
)

// CSITopologyRequest says where a volume is needed.
type CSITopologyRequest struct {
	Required  []*CSITopology
	Preferred []*CSITopology
}

// CSIAttachment is a node to which the controller of a driver may have attached a volume.
type CSIAttachment struct {
	NodeID         string
	ExternalNodeID string // of the storage system
	AccessMode     string
	AttachmentMode string
	ReadOnly       bool   `json:",omitempty"`
	State          string // one of the CSIAttachment states
	// PublishContext is what the controller answered, for the driver on the node. It may
	// contain secrets.
	PublishContext map[string]string `json:"-"`
	Since          int64             // Unix ns; when State began
	Failures       int               `json:",omitempty"` // of the step that State names, in a row
	LastError      string            `json:",omitempty"` // of the driver
	NextTry        int64             `json:",omitempty"` // Unix ns; when the step is tried again
}

// States of a CSIAttachment.
const (
	CSIAttaching = "attaching" // the controller was asked to attach, and has not answered
	CSIAttached  = "attached"
	CSIDetaching = "detaching" // no alloc of the node holds the volume any more
)

// Copy returns a volume that shares nothing with v.
func (v *CSIVolume) Copy() *CSIVolume { return deepCopy(v) }

// CSIAccessModes are the access modes of volumes of type csi.
var CSIAccessModes = append([]string{AccessMultiNodeReader, AccessMultiNodeSingleWriter, AccessMultiNodeMultiWriter}, HostAccessModes...)

// Ways to access a volume from several nodes.
const (
	AccessMultiNodeReader       = "multi-node-reader-only"
	AccessMultiNodeSingleWriter = "multi-node-single-writer"
	AccessMultiNodeMultiWriter  = "multi-node-multi-writer"
)

// Limits of a volume of type csi.
const (
	maxCSITopologies = 64
	maxCSIMountFlags = 64
	maxExternalID    = 1024
)

// Validate returns an error if a volume that a client creates (registered is false) or
// registers is invalid.
func (v *CSIVolume) Validate(registered bool) error {
	var p ValidationError
	v.validateID(&p)
	switch {
	case v.PluginID == "":
		p.addf("missing plugin id: name the CSI driver, as drover plugin status -type csi lists it")
	case !hostVolumePlugin.MatchString(v.PluginID):
		p.addf("plugin id %.80q must be letters, digits, '.', '_' and '-'", v.PluginID)
	}
	if len(v.Name) > MaxNodeKey || hasControl(v.Name) {
		p.addf("name %.80q must be at most %d bytes without control characters", v.Name, MaxNodeKey)
	}
	switch {
	case registered && v.ExternalID == "":
		p.addf("missing external id: a volume is registered by its id in the storage system; to have the driver make one, use drover volume create")
	case !registered && v.ExternalID != "":
		p.addf("external id %.80q can only be set when a volume is registered: the storage system chooses the id of one that it creates", v.ExternalID)
	case len(v.ExternalID) > maxExternalID || hasControl(v.ExternalID):
		p.addf("external id %.80q must be at most %d bytes without control characters", v.ExternalID, maxExternalID)
	case registered && (v.SnapshotID != "" || v.CloneID != ""):
		p.addf("snapshot_id and clone_id are for volumes that are created")
	case v.SnapshotID != "" && v.CloneID != "":
		p.addf("a volume begins with a snapshot or with a clone: leave snapshot_id or clone_id out")
	}
	v.validateCapabilities(&p)
	v.validateBounds(&p)
	return p.err()
}

// CheckForm returns an error if the id cannot be part of a path, or that says which modes there
// are, unless the volume has only such.
func (v *CSIVolume) CheckForm() error {
	var p ValidationError
	v.validateID(&p)
	v.validateModes(&p)
	return p.err()
}

func (v *CSIVolume) validateID(p *ValidationError) {
	switch {
	case v.ID == "":
		p.addf("missing id")
	case !hostVolumeName.MatchString(v.ID):
		p.addf("id %.80q must be letters, digits, '.', '_' and '-', at most 128 of them, begin with a letter or digit, and may end with an index such as [0]", v.ID)
	}
}

func (v *CSIVolume) validateCapabilities(p *ValidationError) {
	validateCapacity(p, v.RequestedCapacityMin, v.RequestedCapacityMax)
	v.validateModes(p)
}

func (v *CSIVolume) validateModes(p *ValidationError) {
	validateVolumeCapabilities(p, v.RequestedCapabilities, func(c *VolumeCapability) {
		if c.AttachmentMode != AttachmentFileSystem && c.AttachmentMode != AttachmentBlockDevice {
			p.addf("unknown volume attachment mode: %.80q; use %q or %q", c.AttachmentMode, AttachmentFileSystem, AttachmentBlockDevice)
		}
		if !slices.Contains(CSIAccessModes, c.AccessMode) {
			p.addf("unknown volume access mode: %.80q; use one of %s", c.AccessMode, strings.Join(CSIAccessModes, ", "))
		}
	})
}

// UnknownAccessMode returns an access mode of the volume that does not exist, or "".
func (v *CSIVolume) UnknownAccessMode() string {
	for _, c := range v.RequestedCapabilities {
		if c != nil && !slices.Contains(CSIAccessModes, c.AccessMode) {
			return c.AccessMode
		}
	}
	return ""
}

func (v *CSIVolume) validateBounds(p *ValidationError) {
	validateTexts(p, "parameters", v.Parameters)
	validateTexts(p, "context", v.Context)
	topologies := slices.Clone(v.Topologies)
	if r := v.RequestedTopologies; r != nil {
		topologies = slices.Concat(topologies, r.Required, r.Preferred)
	}
	if len(topologies) > maxCSITopologies {
		p.addf("%d topologies are more than the %d that a volume may have", len(topologies), maxCSITopologies)
		return
	}
	for _, t := range topologies {
		if t != nil {
			validateTexts(p, "topology segments", t.Segments)
		}
	}
	if v.MountOptions != nil && len(v.RequestedCapabilities) > 0 && !slices.ContainsFunc(v.RequestedCapabilities, func(c *VolumeCapability) bool {
		return c == nil || c.AttachmentMode != AttachmentBlockDevice
	}) {
		p.addf("a volume that is only attached as %q has no mount options: remove them, or add a capability with attachment mode %q", AttachmentBlockDevice, AttachmentFileSystem)
	}
	if m := v.MountOptions; m != nil && (len(m.MountFlags) > maxCSIMountFlags || len(strings.Join(m.MountFlags, "")) > maxVolumeTextBytes || len(m.FSType) > MaxNodeKey) {
		p.addf("the mount options are too long: at most %d flags of %d bytes in all are taken", maxCSIMountFlags, maxVolumeTextBytes)
	}
}

// validateTexts checks names and values that belong to a driver.
func validateTexts(p *ValidationError, what string, texts map[string]string) {
	if len(texts) > maxVolumeParameters {
		p.addf("%s: %d are more than the %d that a volume may have", what, len(texts), maxVolumeParameters)
		return
	}
	size := 0
	for key, value := range texts {
		size += len(key) + len(value)
		if key == "" || strings.ContainsRune(key+value, 0) {
			p.addf("%s: %.80q needs a name, and neither name nor value may have a null character", what, key)
		}
	}
	if size > maxVolumeTextBytes {
		p.addf("%s: they have %d bytes; at most %d are taken", what, size, maxVolumeTextBytes)
	}
}

// Validate returns an error if there are too many secrets. It names none of their values.
func (s VolumeSecrets) Validate() error {
	var p ValidationError
	validateTexts(&p, "secrets", s)
	return p.err()
}

// Refuses returns "" if the volume offers the modes that a group asks for, otherwise why not.
func (v *CSIVolume) Refuses(r *VolumeRequest) string {
	switch {
	case v.State == CSIVolumeDeleting:
		return "CSI volume " + v.ID + " is being deleted"
	case v.ExternalID == "":
		return "CSI volume " + v.ID + " is not created yet"
	}
	access, attachment := r.Modes()
	if !slices.ContainsFunc(v.RequestedCapabilities, func(c *VolumeCapability) bool {
		return c != nil && c.AccessMode == access && c.AttachmentMode == attachment
	}) {
		return "CSI volume " + v.ID + " does not offer access mode " + access + " with attachment mode " + attachment
	}
	return ""
}

// AccessibleFrom reports whether the volume can be used at a location of a node.
func (v *CSIVolume) AccessibleFrom(node *CSITopology) bool {
	if len(v.Topologies) == 0 {
		return true
	}
	for _, t := range v.Topologies {
		if t != nil && node.Within(t) {
			return true
		}
	}
	return !slices.ContainsFunc(v.Topologies, func(t *CSITopology) bool { return t != nil })
}

// Merge returns the mount options with those that a group sets instead of the volume's.
func (m *CSIMountOptions) Merge(own *CSIMountOptions) CSIMountOptions {
	var out CSIMountOptions
	if m != nil {
		out = *m
	}
	if own != nil && own.FSType != "" {
		out.FSType = own.FSType
	}
	if own != nil && len(own.MountFlags) > 0 {
		out.MountFlags = own.MountFlags
	}
	return out
}

// CSIUse is how an alloc uses a volume.
type CSIUse struct {
	NodeID         string
	AccessMode     string
	AttachmentMode string
	Writes         bool
}

// CSIUseOf returns how an alloc of a node that asks for a volume by r uses it.
func CSIUseOf(nodeID string, r *VolumeRequest) CSIUse {
	access, attachment := r.Modes()
	return CSIUse{NodeID: nodeID, AccessMode: access, AttachmentMode: attachment, Writes: r.Writes() && access != AccessMultiNodeReader}
}

// Kind returns the use without its node if Excludes does not look at the node. Uses of a volume
// that have the same Kind exclude the same others.
func (u CSIUse) Kind() CSIUse {
	if !strings.HasPrefix(u.AccessMode, "single-node-") {
		u.NodeID = ""
	}
	return u
}

// Excludes returns why two allocs cannot use a volume at the same time, or "".
func (u CSIUse) Excludes(o CSIUse) string {
	switch {
	case u.AttachmentMode != o.AttachmentMode || u.AccessMode != o.AccessMode:
		return "is in use with access mode " + o.AccessMode + " and attachment mode " + o.AttachmentMode
	}
	return u.Clashes(o)
}

// Clashes returns why two allocs cannot use one volume of a storage system at the same time, be
// it as two volumes here that are used in different modes, or "".
func (u CSIUse) Clashes(o CSIUse) string {
	switch {
	case u.Writes && o.Writes && !(manyWrite(u.AccessMode) && manyWrite(o.AccessMode)):
		return "has exhausted its available writer claims"
	case u.NodeID != o.NodeID && (strings.HasPrefix(u.AccessMode, "single-node-") || strings.HasPrefix(o.AccessMode, "single-node-")):
		return "is in use on another node"
	}
	return ""
}

func manyWrite(mode string) bool {
	return mode == AccessSingleNodeMultiWriter || mode == AccessMultiNodeMultiWriter
}

// CSIRequest returns the request by which an alloc of a group asks for a volume of type csi,
// nil if it does not.
func (tg *TaskGroup) CSIRequest(volume string, index int) *VolumeRequest {
	for _, name := range slices.Sorted(maps.Keys(tg.Volumes)) {
		if r := tg.Volumes[name]; r.IsCSI() && r.VolumeName(index) == volume {
			return r
		}
	}
	return nil
}
