// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// csiFixed returns an error if v asks for what an existing volume cannot become: its driver has
// made it as it is, and would not be told. What v leaves out stays as it is.
func csiFixed(old, v *model.CSIVolume) error {
	fixed := func(what string) error {
		return errdefs.InvalidArgumentf("the %s of volume %q cannot change; create another volume, or leave the field as it was", what, v.ID)
	}
	switch topologies := v.RequestedTopologies; {
	case v.SnapshotID != "" && v.SnapshotID != old.SnapshotID:
		return fixed("snapshot_id")
	case v.CloneID != "" && v.CloneID != old.CloneID:
		return fixed("clone_id")
	case len(v.Parameters) > 0 && !maps.Equal(v.Parameters, old.Parameters):
		return fixed("parameters")
	case v.RequestedCapacityMax > 0 && v.RequestedCapacityMax < old.Capacity:
		return errdefs.InvalidArgumentf("capacity_max (%d) must not be smaller than volume %q, which has %d bytes: volumes do not shrink", v.RequestedCapacityMax, v.ID, old.Capacity)
	case topologies != nil && !reflect.DeepEqual(topologies, old.RequestedTopologies) && len(topologies.Required) > 0 && !slices.ContainsFunc(topologies.Required, old.AccessibleFrom):
		return errdefs.InvalidArgumentf("volume %q is not accessible from where topology_request requires it, and volumes do not move; create another volume", v.ID)
	}
	return nil
}

// csiStillOffers returns an error if v does not offer the modes in which allocs use the volume.
func csiStillOffers(view *state.View, old, v *model.CSIVolume) error {
	for _, a := range view.CSIVolumeHolders(old.Namespace, old.ID) {
		job := view.JobOf(a)
		if job == nil {
			continue
		}
		tg := job.LookupTaskGroup(a.TaskGroup)
		if tg == nil {
			continue
		}
		r := tg.CSIRequest(old.ID, a.Index())
		if r == nil {
			continue
		}
		access, attachment := r.Modes()
		if !slices.ContainsFunc(v.RequestedCapabilities, func(c *model.VolumeCapability) bool {
			return c.AccessMode == access && c.AttachmentMode == attachment
		}) {
			return errdefs.FailedPreconditionf("volume in use: alloc %s (%s) uses %s with access mode %s and attachment mode %s; keep that capability, or stop the job", a.ID, a.Name, v.ID, access, attachment)
		}
	}
	return nil
}

// change puts what v asks for into the row of a volume.
func change(row, v *model.CSIVolume) {
	row.Name, row.RequestedCapacityMin, row.RequestedCapacityMax = v.Name, v.RequestedCapacityMin, v.RequestedCapacityMax
	row.RequestedCapabilities, row.MountOptions, row.Driver, row.Attaches = v.RequestedCapabilities, v.MountOptions, v.Driver, v.Attaches
	if v.RequestedTopologies != nil {
		row.RequestedTopologies = v.RequestedTopologies
	}
}

// keepUnsaid gives v, which registers an existing volume again, what it leaves out and the
// storage system has told of the volume: without the context, nodes could not mount it.
func keepUnsaid(old, v *model.CSIVolume) {
	v.ExternalID = cmp.Or(v.ExternalID, old.ExternalID)
	if v.ExternalID != old.ExternalID { // which is refused
		return
	}
	v.Capacity = cmp.Or(v.Capacity, old.Capacity)
	if len(v.Context) == 0 {
		v.Context = old.Context
	}
	if len(v.Parameters) == 0 {
		v.Parameters = old.Parameters
	}
	if len(v.Topologies) == 0 {
		v.Topologies = old.Topologies
	}
	if v.RequestedTopologies == nil {
		v.RequestedTopologies = old.RequestedTopologies
	}
}
