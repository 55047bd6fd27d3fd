// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"github.com/dustin/go-humanize"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// csiVolumeFile is the specification of a volume of type csi, in HCL or JSON.
type csiVolumeFile struct {
	ID           string             `hcl:"id,optional"`
	Namespace    string             `hcl:"namespace,optional"`
	Name         string             `hcl:"name,optional"`
	ExternalID   string             `hcl:"external_id,optional"`
	PluginID     string             `hcl:"plugin_id,optional"`
	SnapshotID   string             `hcl:"snapshot_id,optional"`
	CloneID      string             `hcl:"clone_id,optional"`
	CapacityMin  *string            `hcl:"capacity_min"`
	CapacityMax  *string            `hcl:"capacity_max"`
	Capabilities []volumeCapability `hcl:"capability,block"`
	MountOptions *struct {
		FSType     string   `hcl:"fs_type,optional"`
		MountFlags []string `hcl:"mount_flags,optional"`
	} `hcl:"mount_options,block"`
	Topology *struct {
		Required  *topologyBlocks `hcl:"required,block"`
		Preferred *topologyBlocks `hcl:"preferred,block"`
	} `hcl:"topology_request,block"`
	Secrets    *metaBlock `hcl:"secrets,block"`
	Parameters *metaBlock `hcl:"parameters,block"`
	Context    *metaBlock `hcl:"context,block"`
}

type volumeCapability struct {
	AccessMode     string `hcl:"access_mode"`
	AttachmentMode string `hcl:"attachment_mode"`
}

type topologyBlocks struct {
	Topologies []struct {
		Segments *metaBlock `hcl:"segments,block"`
	} `hcl:"topology,block"`
}

func (b *topologyBlocks) read(diags *hcl.Diagnostics) (out []*model.CSITopology) {
	if b == nil {
		return nil
	}
	for _, t := range b.Topologies {
		segments, more := t.Segments.read()
		*diags = append(*diags, more...)
		out = append(out, &model.CSITopology{Segments: segments})
	}
	return out
}

// VolumeType returns the type of volume that a specification describes.
func VolumeType(src []byte, filename string) (string, error) {
	kind, _, _, err := volumeSpec(src, filename)
	return kind, err
}

// volumeSpec returns the type of a specification, what else it has, and what puts problems
// with that to where they are in src.
func volumeSpec(src []byte, filename string) (string, hcl.Body, func(hcl.Diagnostics) hcl.Diagnostics, error) {
	body, back, diags := volumeBody(src, filename)
	if diags.HasErrors() {
		return "", nil, nil, parseError(diags, src, filename)
	}
	var kind volumeType
	if diags := gohcl.DecodeBody(body, nil, &kind); diags.HasErrors() {
		return "", nil, nil, parseError(back(diags), src, filename)
	}
	if kind.Type != VolumeHost && kind.Type != VolumeCSI {
		return "", nil, nil, errdefs.InvalidArgumentf("%s: type %q is not a type of volumes; use %q or %q", filename, kind.Type, VolumeHost, VolumeCSI)
	}
	return kind.Type, kind.Rest, back, nil
}

// ParseCSIVolume parses the specification of a volume of type csi in HCL, or in JSON with the
// same names. Its errors are those of ParseHCL.
func ParseCSIVolume(src []byte, filename string) (*model.CSIVolume, model.VolumeSecrets, error) {
	kind, body, back, err := volumeSpec(src, filename)
	if err != nil {
		return nil, nil, err
	}
	if kind != VolumeCSI {
		return nil, nil, errdefs.InvalidArgumentf("%s: the specification is of a volume of type %q", filename, kind)
	}
	var file csiVolumeFile
	diags := gohcl.DecodeBody(body, nil, &file)
	v := &model.CSIVolume{
		ID: file.ID, Namespace: file.Namespace, Name: file.Name, ExternalID: file.ExternalID, PluginID: file.PluginID, SnapshotID: file.SnapshotID, CloneID: file.CloneID,
	}
	texts := func(b *metaBlock) map[string]string {
		out, more := b.read()
		diags = append(diags, more...)
		return out
	}
	v.Parameters, v.Context = texts(file.Parameters), texts(file.Context)
	secrets := model.VolumeSecrets(texts(file.Secrets))
	for _, c := range file.Capabilities {
		v.RequestedCapabilities = append(v.RequestedCapabilities, &model.VolumeCapability{AccessMode: c.AccessMode, AttachmentMode: c.AttachmentMode})
	}
	if m := file.MountOptions; m != nil {
		v.MountOptions = &model.CSIMountOptions{FSType: m.FSType, MountFlags: m.MountFlags}
	}
	if t := file.Topology; t != nil {
		v.RequestedTopologies = &model.CSITopologyRequest{Required: t.Required.read(&diags), Preferred: t.Preferred.read(&diags)}
	}
	diags = append(diags, readSizes(body, filename, []volumeSize{{"capacity_min", file.CapacityMin, &v.RequestedCapacityMin}, {"capacity_max", file.CapacityMax, &v.RequestedCapacityMax}})...)
	return v, secrets, parseError(back(diags), src, filename)
}

// volumeSize is a size in a specification.
type volumeSize struct {
	key  string
	text *string
	to   *int64
}

func readSizes(body hcl.Body, filename string, sizes []volumeSize) (diags hcl.Diagnostics) {
	for _, size := range sizes {
		if size.text == nil || *size.text == "" {
			continue
		}
		n, err := humanize.ParseBytes(*size.text)
		if err != nil || n > 1<<62 {
			diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Invalid size", Detail: size.key + " " + quoted(*size.text) + ` is not a size; write it as "10GiB", "20G" or a number of bytes.`, Subject: rangeOf(body, size.key, filename)})
			continue
		}
		*size.to = int64(n)
	}
	return diags
}
