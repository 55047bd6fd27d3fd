// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"maps"
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// PutCSIVolume stores a volume of type csi. With New its id must be free, and otherwise it
// must exist: what a driver answers about a volume that was deleted meanwhile does not
// bring it back. Its attachments stay as they are.
type PutCSIVolume struct {
	Volume *model.CSIVolume // ModifyTime is set; Attachments are ignored
	New    bool

	stored *model.CSIVolume
}

func (c *PutCSIVolume) answer() any { return c.stored }

func (*PutCSIVolume) kind() byte { return kindPutCSIVolume }

func (c *PutCSIVolume) apply(tx *state.Tx) error {
	if c.Volume == nil || c.Volume.ID == "" {
		return errdefs.InvalidArgumentf("a volume is missing")
	}
	view, row := tx.View(), *c.Volume
	cur := view.CSIVolumeByID(row.Namespace, row.ID)
	switch {
	case c.New && cur != nil:
		return errdefs.Conflictf("volume %q exists", row.ID)
	case c.New && view.NamespaceByName(row.Namespace) == nil:
		return errdefs.NotFoundf("volume %q is in nonexistent namespace %q", row.ID, row.Namespace)
	case c.New:
		row.Attachments = nil
	case cur == nil:
		return errdefs.NotFoundf("volume %q was deleted meanwhile", row.ID)
	case cur.PluginID != row.PluginID || cur.ExternalID != "" && cur.ExternalID != row.ExternalID:
		return errdefs.InvalidArgumentf("plugin and external id of volume %q cannot change; create another volume", row.ID)
	default:
		row.Attachments = cur.Attachments
		if cur.State == model.CSIVolumeDeleting {
			row.State = cur.State
		}
	}
	tx.UpsertCSIVolume(&row)
	c.stored = &row
	return nil
}

// MarkCSIVolume begins the removal of a volume that no alloc holds and that no node has,
// after which nothing is placed on it, or with Deleting false gives the removal up.
type MarkCSIVolume struct {
	Namespace, ID string
	Deleting      bool
	Now           int64 // Unix ns
}

func (*MarkCSIVolume) kind() byte { return kindMarkCSIVolume }

func (c *MarkCSIVolume) apply(tx *state.Tx) error {
	cur := tx.View().CSIVolumeByID(c.Namespace, c.ID)
	if cur == nil {
		return errdefs.NotFoundf("volume not found: %s", c.ID)
	}
	row := *cur
	if c.Deleting {
		if err := csiUnused(tx.View(), cur); err != nil {
			return err
		}
		for _, twin := range tx.View().CSIVolumeTwins(cur) {
			return errdefs.FailedPreconditionf("volume in use: %s is volume %s of namespace %s, too, which would lose its data; deregister one of them", cur.ID, twin.ID, twin.Namespace)
		}
		row.State = model.CSIVolumeDeleting
	} else if row.State = ""; row.ExternalID == "" {
		row.State = model.CSIVolumeCreating
	}
	row.ModifyTime = c.Now
	tx.UpsertCSIVolume(&row)
	return nil
}

// DeleteCSIVolume removes a volume that no alloc holds and that no node has. With Force it
// is forgotten even so.
type DeleteCSIVolume struct {
	Namespace, ID string
	Force         bool
}

func (*DeleteCSIVolume) kind() byte { return kindDeleteCSIVolume }

func (c *DeleteCSIVolume) apply(tx *state.Tx) error {
	if cur := tx.View().CSIVolumeByID(c.Namespace, c.ID); cur != nil && !c.Force {
		if err := csiUnused(tx.View(), cur); err != nil {
			return err
		}
	}
	return tx.DeleteCSIVolume(c.Namespace, c.ID)
}

func csiUnused(view *state.View, v *model.CSIVolume) error {
	if len(view.CSIVolumeHolders(v.Namespace, v.ID)) > 0 {
		return errdefs.FailedPreconditionf("volume in use: %s", v.ID)
	}
	for _, node := range slices.Sorted(maps.Keys(v.Attachments)) {
		return errdefs.FailedPreconditionf("volume in use: %s is still attached to node %s, and is being detached; see: drover volume status -type csi %s", v.ID, node, v.ID)
	}
	return nil
}

// PutCSIAttachment stores that a volume is at a node, or may be, or with Gone that it is not
// any more. Only the leader proposes it, for one volume one at a time.
type PutCSIAttachment struct {
	Namespace, ID string
	Attachment    *model.CSIAttachment
	Gone          bool
}

func (*PutCSIAttachment) kind() byte { return kindPutCSIAttachment }

func (c *PutCSIAttachment) apply(tx *state.Tx) error {
	cur := tx.View().CSIVolumeByID(c.Namespace, c.ID)
	switch {
	case c.Attachment == nil || c.Attachment.NodeID == "":
		return errdefs.InvalidArgumentf("an attachment is missing")
	case cur == nil:
		return errdefs.NotFoundf("volume not found: %s", c.ID)
	case cur.State != "" && !c.Gone && cur.Attachments[c.Attachment.NodeID] == nil:
		return errdefs.FailedPreconditionf("volume %s is %s, so it cannot be attached", c.ID, cur.State)
	}
	row := *cur
	row.Attachments = maps.Clone(cur.Attachments)
	if c.Gone {
		delete(row.Attachments, c.Attachment.NodeID)
	} else {
		if row.Attachments == nil {
			row.Attachments = map[string]*model.CSIAttachment{}
		}
		a := *c.Attachment
		row.Attachments[a.NodeID] = &a
	}
	tx.UpsertCSIVolume(&row)
	return nil
}
