// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin

import (
	"context"
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-project/drover/sdk/errdefs"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

// Create implements volume.Creator.
func (p *Plugin) Create(ctx context.Context, r volume.CreateRequest) (*volume.Description, error) {
	caps, err := p.capabilities(r.Access)
	if err != nil {
		return nil, err
	}
	size, err := rangeOf(r.Capacity)
	if err != nil {
		return nil, err
	}
	if r.SourceSnapshot != "" && r.SourceVolume != "" {
		return nil, errdefs.InvalidArgumentf("a volume cannot begin with a snapshot and with a volume")
	}
	req := &csi.CreateVolumeRequest{
		Name: r.Name, CapacityRange: size, VolumeCapabilities: caps, Parameters: r.Parameters, Secrets: r.Secrets,
		VolumeContentSource: sourceOf(r), AccessibilityRequirements: requirementOf(r.Topology),
	}
	var out volume.Description
	err = p.do(ctx, call{lane: "name " + r.Name, what: quoted("create volume", r.Name), secrets: r.Secrets, try: func(ctx context.Context, c *conn, _ *settings) error {
		resp, err := c.controller.CreateVolume(ctx, req)
		if err != nil {
			return err
		}
		if out, err = created(resp.GetVolume(), r); err == nil {
			err = p.remember(out.ID, r.Name)
		}
		return err
	}})
	if err != nil {
		err = reasoned(err, codes.ResourceExhausted, volume.ReasonNoSpace)
		return nil, reasoned(err, codes.NotFound, volume.ReasonNoSource)
	}
	return &out, nil
}

func sourceOf(r volume.CreateRequest) *csi.VolumeContentSource {
	switch {
	case r.SourceSnapshot != "":
		return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: r.SourceSnapshot}}}
	case r.SourceVolume != "":
		return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: r.SourceVolume}}}
	}
	return nil
}

// created checks a volume that the driver says it made. A volume that is not what was asked
// for is not used, and its id is in the error, because the driver may have it.
func created(v *csi.Volume, r volume.CreateRequest) (volume.Description, error) {
	d, err := describe(v)
	if err == nil {
		err = checkSize(d.CapacityBytes, r.Capacity)
	}
	// What it begins with is not compared: the driver of GCE says numbers for the names it gets.
	source := v.GetContentSource()
	if err == nil && ((source.GetSnapshot() != nil) != (r.SourceSnapshot != "") || (source.GetVolume() != nil) != (r.SourceVolume != "")) {
		err = defective("it made volume %q without the source that was asked for, or with one that was not", d.ID)
	}
	d.SourceSnapshot, d.SourceVolume = r.SourceSnapshot, r.SourceVolume
	if err == nil {
		err = withoutSecrets(d.Context, r.Secrets, r.Parameters)
	}
	return d, err
}

// maxMade is the largest number of volumes whose names are remembered.
const maxMade = 100_000

// remember refuses the id of a volume of another name. It is only as good as the memory of
// this process; the host knows the ids of all volumes.
func (p *Plugin) remember(id, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if other, known := p.made[id]; known && other != name {
		return defective("it answered with the id %q, which is that of the volume %q", id, other)
	}
	if len(p.made) >= maxMade {
		clear(p.made)
	}
	p.made[id] = name
	return nil
}

func (p *Plugin) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.made, id)
}

// Delete implements volume.Creator.
func (p *Plugin) Delete(ctx context.Context, id string, secrets volume.Secrets) error {
	return p.do(ctx, call{precondition: volume.ReasonInUse, lane: id, what: quoted("delete volume", id), secrets: secrets, try: func(ctx context.Context, c *conn, _ *settings) error {
		_, err := c.controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id, Secrets: secrets})
		if err = unlessGone(err); err == nil {
			p.forget(id)
		}
		return err
	}})
}

// unlessGone takes that something does not exist for its removal.
func unlessGone(err error) error {
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

// Validate implements volume.Validator.
func (p *Plugin) Validate(ctx context.Context, r volume.ValidateRequest) error {
	caps, err := p.capabilities(r.Access)
	if err != nil {
		return err
	}
	req := &csi.ValidateVolumeCapabilitiesRequest{VolumeId: r.ID, VolumeContext: r.Context, VolumeCapabilities: caps, Parameters: r.Parameters, Secrets: r.Secrets}
	err = p.read(ctx, call{what: quoted("validate volume", r.ID), secrets: r.Secrets, try: func(ctx context.Context, c *conn, _ *settings) error {
		resp, err := c.controller.ValidateVolumeCapabilities(ctx, req)
		if err != nil {
			return err
		}
		if resp.GetConfirmed() == nil {
			text := words(resp.GetMessage(), r.Secrets)
			if text == "" {
				text = "the driver does not say why"
			}
			return because(errdefs.InvalidArgumentf("the volume cannot be used in this way: %s", text))
		}
		return nil
	}})
	return reasoned(err, codes.NotFound, volume.ReasonNoVolume)
}

// Get implements volume.Getter.
func (p *Plugin) Get(ctx context.Context, id string) (*volume.Description, error) {
	var out volume.Description
	err := p.read(ctx, call{what: quoted("get volume", id), try: func(ctx context.Context, c *conn, _ *settings) error {
		resp, err := c.controller.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: id})
		if err != nil {
			return err
		}
		if out, err = describe(resp.GetVolume()); err != nil {
			return err
		}
		if out.ID != id {
			return defective("it answered about another volume")
		}
		return addStatus(&out, resp.GetStatus().GetPublishedNodeIds(), resp.GetStatus().GetVolumeCondition(), p.sent.with(nil))
	}})
	if err != nil {
		return nil, reasoned(err, codes.NotFound, volume.ReasonNoVolume)
	}
	return &out, nil
}

// Capacity implements volume.Sizer.
func (p *Plugin) Capacity(ctx context.Context, r volume.CapacityRequest) (*volume.Capacity, error) {
	req := &csi.GetCapacityRequest{Parameters: r.Parameters}
	if len(r.Access) > 0 {
		var err error
		if req.VolumeCapabilities, err = p.capabilities(r.Access); err != nil {
			return nil, err
		}
	}
	if r.Topology != nil {
		req.AccessibleTopology = &csi.Topology{Segments: r.Topology}
	}
	out := &volume.Capacity{}
	err := p.read(ctx, call{what: "ask for the free space", try: func(ctx context.Context, c *conn, _ *settings) error {
		resp, err := c.controller.GetCapacity(ctx, req)
		if err != nil {
			return err
		}
		out.AvailableBytes = max(0, resp.GetAvailableCapacity())
		if m := resp.GetMaximumVolumeSize(); m != nil {
			out.MaxVolumeBytes = &m.Value
		}
		if m := resp.GetMinimumVolumeSize(); m != nil {
			out.MinVolumeBytes = &m.Value
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Expand implements volume.Expander.
func (p *Plugin) Expand(ctx context.Context, r volume.ExpandRequest) (*volume.Expansion, error) {
	size, err := rangeOf(r.Capacity)
	if err != nil {
		return nil, err
	}
	req := &csi.ControllerExpandVolumeRequest{VolumeId: r.ID, CapacityRange: size, Secrets: r.Secrets}
	if r.Access.Mode != "" {
		if req.VolumeCapability, err = p.capability(r.Access); err != nil {
			return nil, err
		}
	}
	var out volume.Expansion
	err = p.do(ctx, call{precondition: volume.ReasonOffline, lane: r.ID, what: quoted("expand volume", r.ID), secrets: r.Secrets, try: func(ctx context.Context, c *conn, _ *settings) error {
		resp, err := c.controller.ControllerExpandVolume(ctx, req)
		if err != nil {
			return err
		}
		out = volume.Expansion{CapacityBytes: resp.GetCapacityBytes(), NodeExpansion: resp.GetNodeExpansionRequired()}
		return checkSize(out.CapacityBytes, r.Capacity)
	}})
	if err != nil {
		return nil, reasoned(err, codes.NotFound, volume.ReasonNoVolume)
	}
	return &out, nil
}

// Modify implements volume.Modifier.
func (p *Plugin) Modify(ctx context.Context, r volume.ModifyRequest) error {
	req := &csi.ControllerModifyVolumeRequest{VolumeId: r.ID, MutableParameters: r.Parameters, Secrets: r.Secrets}
	err := p.do(ctx, call{lane: r.ID, what: quoted("modify volume", r.ID), secrets: r.Secrets, try: func(ctx context.Context, c *conn, _ *settings) error {
		_, err := c.controller.ControllerModifyVolume(ctx, req)
		return err
	}})
	return reasoned(err, codes.NotFound, volume.ReasonNoVolume)
}

// Attach implements volume.Attacher.
func (p *Plugin) Attach(ctx context.Context, r volume.AttachRequest) (map[string]string, error) {
	access, err := p.capability(r.Access)
	if err != nil {
		return nil, err
	}
	if k := p.knows(); r.ReadOnly && k.name != "" && !k.has(volume.CanAttachReadOnly) {
		return nil, errdefs.InvalidArgumentf("driver %q cannot attach volumes read-only", k.name)
	}
	req := &csi.ControllerPublishVolumeRequest{VolumeId: r.ID, NodeId: r.NodeID, VolumeCapability: access, Readonly: r.ReadOnly, VolumeContext: r.Context, Secrets: r.Secrets}
	var out map[string]string
	err = p.do(ctx, call{precondition: volume.ReasonElsewhere, lane: r.ID, what: quoted("attach volume", r.ID), secrets: r.Secrets, try: func(ctx context.Context, c *conn, _ *settings) error {
		resp, err := c.controller.ControllerPublishVolume(ctx, req)
		if err != nil {
			return err
		}
		if out = resp.GetPublishContext(); out == nil {
			return nil
		}
		return errors.Join(checkContext("the context of an attached volume", out), withoutSecrets(out, r.Secrets, r.Context))
	}})
	if err != nil {
		return nil, reasoned(err, codes.ResourceExhausted, volume.ReasonTooMany)
	}
	return out, nil
}

// Detach implements volume.Attacher.
func (p *Plugin) Detach(ctx context.Context, r volume.DetachRequest) error {
	req := &csi.ControllerUnpublishVolumeRequest{VolumeId: r.ID, NodeId: r.NodeID, Secrets: r.Secrets}
	return p.do(ctx, call{lane: r.ID, what: quoted("detach volume", r.ID), secrets: r.Secrets, try: func(ctx context.Context, c *conn, _ *settings) error {
		_, err := c.controller.ControllerUnpublishVolume(ctx, req)
		return unlessGone(err)
	}})
}
