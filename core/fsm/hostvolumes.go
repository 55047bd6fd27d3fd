// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// PutHostVolume stores a host volume. With New its id and its name on the node must be free,
// and otherwise it must exist: what its node says of a volume that was deleted meanwhile
// does not bring it back. Its answer is the stored *model.HostVolume.
type PutHostVolume struct {
	Volume *model.HostVolume // ModifyTime is set; State is ignored
	New    bool

	stored *model.HostVolume
}

func (c *PutHostVolume) answer() any { return c.stored }

func (*PutHostVolume) kind() byte { return kindPutHostVolume }

func (c *PutHostVolume) apply(tx *state.Tx) error {
	if c.Volume == nil {
		return errdefs.InvalidArgumentf("a host volume is missing")
	}
	view, row := tx.View(), *c.Volume
	cur := view.HostVolumeByID(row.ID)
	switch {
	case c.New && cur != nil:
		return errdefs.Conflictf("host volume %q exists", row.ID)
	case c.New:
		if err := mayAdd(view, &row); err != nil {
			return err
		}
	case cur == nil:
		return errdefs.NotFoundf("host volume %q was deleted meanwhile", row.ID)
	case cur.Namespace != row.Namespace || cur.Name != row.Name || cur.NodeID != row.NodeID || cur.PluginID != row.PluginID:
		return errdefs.InvalidArgumentf("namespace, name, node and plugin of host volume %q cannot change; create another volume", row.ID)
	default:
		row.Deleting = cur.Deleting
	}
	tx.UpsertHostVolume(&row)
	c.stored = &row
	return nil
}

// mayAdd refuses a new volume whose name is taken on its node.
func mayAdd(view *state.View, row *model.HostVolume) error {
	if view.NamespaceByName(row.Namespace) == nil {
		return errdefs.NotFoundf("host volume %q is in nonexistent namespace %q", row.Name, row.Namespace)
	}
	n := view.NodeByID(row.NodeID)
	if n == nil {
		return errdefs.NotFoundf("node %q does not exist", row.NodeID)
	}
	if on := n.HostVolumes[row.Name]; on != nil && on.ID != row.ID {
		return errdefs.Conflictf("node %q has a volume with the name %q", n.ID, row.Name)
	}
	for _, other := range view.HostVolumesByNode(row.NodeID) {
		if other.Name == row.Name {
			return errdefs.Conflictf("node %q has a volume with the name %q: %s", n.ID, row.Name, other.ID)
		}
	}
	return nil
}

// MarkHostVolume begins the removal of a volume that no alloc uses, after which nothing is
// placed on it, or with Deleting false gives the removal up.
type MarkHostVolume struct {
	ID       string
	Deleting bool
}

func (*MarkHostVolume) kind() byte { return kindMarkHostVolume }

func (c *MarkHostVolume) apply(tx *state.Tx) error {
	if c.Deleting {
		if err := unused(tx.View(), c.ID); err != nil {
			return err
		}
	}
	return tx.DeletingHostVolume(c.ID, c.Deleting)
}

// DeleteHostVolume removes a volume that no alloc uses, and the claims on it.
type DeleteHostVolume struct{ ID string }

func (*DeleteHostVolume) kind() byte { return kindDeleteHostVolume }

func (c *DeleteHostVolume) apply(tx *state.Tx) error {
	if err := unused(tx.View(), c.ID); err != nil {
		return err
	}
	return tx.DeleteHostVolume(c.ID)
}

func unused(view *state.View, id string) error {
	vol := view.HostVolumeByID(id)
	if vol == nil {
		return errdefs.NotFoundf("host volume %q not found", id)
	}
	var ids []string
	for _, a := range view.HostVolumeUsers(vol) {
		ids = append(ids, a.ID)
	}
	if len(ids) > 0 {
		return errdefs.FailedPreconditionf("volume %s in use by allocations: [%s]", id, strings.Join(ids, " "))
	}
	return nil
}

// DeleteVolumeClaim removes the claim of an alloc's name on a sticky host volume. The next
// alloc of the name may get another volume.
type DeleteVolumeClaim struct{ ID string }

func (*DeleteVolumeClaim) kind() byte { return kindDeleteVolumeClaim }

func (c *DeleteVolumeClaim) apply(tx *state.Tx) error {
	if tx.View().VolumeClaimByID(c.ID) == nil {
		return errdefs.NotFoundf("claim %q not found", c.ID)
	}
	tx.DeleteVolumeClaim(c.ID)
	return nil
}
