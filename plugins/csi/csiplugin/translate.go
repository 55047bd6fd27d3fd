// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin

import (
	"fmt"
	"maps"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/drover-project/drover/sdk/errdefs"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

type callOption = grpc.CallOption

// Limits of what a driver says. CSI limits ids to 128 bytes and contexts to 4 KiB, but
// drivers exceed that, so these limits are wider.
const (
	maxID         = 1024
	maxContext    = 64 << 10
	maxTopologies = 4096
	maxNodes      = 10000
)

var modes = map[volume.AccessMode]csi.VolumeCapability_AccessMode_Mode{
	volume.SingleNodeReader:       csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
	volume.SingleNodeWriter:       csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
	volume.MultiNodeReader:        csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
	volume.MultiNodeSingleWriter:  csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
	volume.MultiNodeMultiWriter:   csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER,
	volume.SingleNodeSingleWriter: csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
	volume.SingleNodeMultiWriter:  csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER,
}

// capability returns an access in the words of CSI.
func (p *Plugin) capability(a volume.Access) (*csi.VolumeCapability, error) {
	mode, ok := modes[a.Mode]
	if !ok {
		return nil, errdefs.InvalidArgumentf("access mode %q is none of %q", a.Mode, volume.AccessModes())
	}
	k := p.knows()
	if narrow := a.Mode == volume.SingleNodeSingleWriter || a.Mode == volume.SingleNodeMultiWriter; narrow && k.name != "" && !k.has(volume.CanSingleNodeMultiWriter) {
		return nil, errdefs.InvalidArgumentf("driver %q does not know access mode %q; use %q", k.name, a.Mode, volume.SingleNodeWriter)
	}
	if a.MountGroup != "" && k.name != "" && !k.has(volume.CanMountGroup) {
		return nil, errdefs.InvalidArgumentf("driver %q cannot give files to a group", k.name)
	}
	out := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode}}
	switch a.Attachment {
	case volume.AttachmentFileSystem, "":
		out.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: a.FSType, MountFlags: a.MountFlags, VolumeMountGroup: a.MountGroup}}
	case volume.AttachmentBlockDevice:
		if a.FSType != "" || len(a.MountFlags) > 0 || a.MountGroup != "" {
			return nil, errdefs.InvalidArgumentf("a volume that is attached as %q has no file system and so no mount options", a.Attachment)
		}
		out.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	default:
		return nil, errdefs.InvalidArgumentf("attachment mode %q is neither %q nor %q", a.Attachment, volume.AttachmentFileSystem, volume.AttachmentBlockDevice)
	}
	return out, nil
}

func (p *Plugin) capabilities(all []volume.Access) ([]*csi.VolumeCapability, error) {
	if len(all) == 0 {
		return nil, errdefs.InvalidArgumentf("a volume needs at least one way in which it is used")
	}
	var out []*csi.VolumeCapability
	for _, a := range all {
		c, err := p.capability(a)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func rangeOf(c volume.CapacityRange) (*csi.CapacityRange, error) {
	if c.RequiredBytes < 0 || c.LimitBytes < 0 || c.LimitBytes > 0 && c.RequiredBytes > c.LimitBytes {
		return nil, errdefs.WithReason(errdefs.InvalidArgumentf("a size of at least %d and at most %d bytes cannot be had", c.RequiredBytes, c.LimitBytes), volume.ReasonSize)
	}
	if c == (volume.CapacityRange{}) {
		return nil, nil
	}
	return &csi.CapacityRange{RequiredBytes: c.RequiredBytes, LimitBytes: c.LimitBytes}, nil
}

// checkSize refuses a size outside of what was asked for. 0 means that the driver does not
// know it.
func checkSize(got int64, want volume.CapacityRange) error {
	if got < 0 || got > 0 && (got < want.RequiredBytes || want.LimitBytes > 0 && got > want.LimitBytes) {
		return defective("it made a volume of %d bytes where at least %d and at most %d (0: any) were asked for", got, want.RequiredBytes, want.LimitBytes)
	}
	return nil
}

func requirementOf(r *volume.TopologyRequirement) *csi.TopologyRequirement {
	if r == nil {
		return nil
	}
	of := func(all []volume.Topology) (out []*csi.Topology) {
		for _, t := range all {
			out = append(out, &csi.Topology{Segments: t})
		}
		return out
	}
	return &csi.TopologyRequirement{Requisite: of(r.Required), Preferred: of(r.Preferred)}
}

func topologyOf(t *csi.Topology) (volume.Topology, error) {
	if err := checkContext("a location", t.GetSegments()); err != nil {
		return nil, err
	}
	if t.GetSegments() == nil {
		return volume.Topology{}, nil
	}
	return t.GetSegments(), nil
}

// checkID refuses what cannot be an id. Texts of drivers are not in the error.
func checkID(what, id string) error {
	if id == "" || len(id) > maxID || line(id, maxID) != id {
		return defective("it answered with %s of %d bytes, which is no id", what, len(id))
	}
	return nil
}

func checkContext(what string, m map[string]string) error {
	size := 0
	for k, v := range m {
		size += len(k) + len(v)
	}
	if size > maxContext {
		return defective("it answered with %s of %d bytes; at most %d are taken", what, size, maxContext)
	}
	return nil
}

// withoutSecrets refuses a context in which the driver repeats a secret, since contexts are
// stored and shown. A value that the request also has in clear is no secret: a user among the
// secrets often has the name of a pool, and drivers repeat parameters.
func withoutSecrets(m map[string]string, secrets volume.Secrets, clear map[string]string) error {
	said := slices.Collect(maps.Values(clear))
	for _, secret := range secrets {
		for _, v := range m {
			if len(secret) >= 4 && slices.Contains(forms(secret), v) && !slices.Contains(said, v) {
				return defective("it put a secret into the context of a volume, which is stored and shown")
			}
		}
	}
	return nil
}

// describe checks and translates a volume.
func describe(v *csi.Volume) (volume.Description, error) {
	var none volume.Description
	if err := checkID("the id of a volume", v.GetVolumeId()); err != nil {
		return none, err
	}
	if err := checkContext("the context of a volume", v.GetVolumeContext()); err != nil {
		return none, err
	}
	if len(v.GetAccessibleTopology()) > maxTopologies || v.GetCapacityBytes() < 0 {
		return none, defective("it answered with a volume of %d bytes at %d locations", v.GetCapacityBytes(), len(v.GetAccessibleTopology()))
	}
	out := volume.Description{
		ID: v.GetVolumeId(), CapacityBytes: v.GetCapacityBytes(), Context: v.GetVolumeContext(),
		SourceSnapshot: v.GetContentSource().GetSnapshot().GetSnapshotId(), SourceVolume: v.GetContentSource().GetVolume().GetVolumeId(),
	}
	for _, t := range v.GetAccessibleTopology() {
		one, err := topologyOf(t)
		if err != nil {
			return none, err
		}
		out.Topologies = append(out.Topologies, one)
	}
	return out, nil
}

// addStatus adds the nodes and the condition of a volume, without secrets.
func addStatus(d *volume.Description, nodes []string, c *csi.VolumeCondition, secrets volume.Secrets) error {
	if len(nodes) > maxNodes {
		return defective("it answered with a volume at %d nodes; at most %d are taken", len(nodes), maxNodes)
	}
	for _, n := range nodes {
		if n == "" { // the hostpath driver names every volume's node, also of one that is nowhere
			continue
		}
		if err := checkID("the id of a node", n); err != nil {
			return err
		}
	}
	d.PublishedNodes, d.Condition = nodes, conditionOf(c, secrets)
	return nil
}

func conditionOf(c *csi.VolumeCondition, secrets volume.Secrets) *volume.Condition {
	if c == nil {
		return nil
	}
	return &volume.Condition{Abnormal: c.GetAbnormal(), Message: words(c.GetMessage(), secrets)}
}

// line returns a text without control characters, cut at a limit.
func line(text string, limit int) string {
	out := words(text, nil)
	return out[:min(len(out), limit)]
}

func quoted(verb, id string) string { return fmt.Sprintf("%s %q", verb, id) }
