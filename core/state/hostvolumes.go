// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"iter"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	hostVolumesByNode = iota
)

// TableHostVolumes is the name of the table of host volumes.
const TableHostVolumes = "host_volumes"

var hostVolumeTable = &kind[model.HostVolume]{
	heading: heading{name: TableHostVolumes},
	schema: schema[model.HostVolume]{
		id: func(v *model.HostVolume) string { return v.ID },
		secondaries: []secondary[model.HostVolume]{
			hostVolumesByNode: {name: ByNode, watched: true, key: func(v *model.HostVolume) string { return v.NodeID }},
		},
	},
	record: 80,
}

// HostVolumeByID returns a host volume.
func (v *View) HostVolumeByID(id string) *model.HostVolume { return hostVolumeTable.in(v.t).get(id) }

// HostVolumes yields all host volumes ordered by id.
func (v *View) HostVolumes() iter.Seq[*model.HostVolume] { return hostVolumeTable.in(v.t).all("") }

// HostVolumesByNode returns the host volumes of a node.
func (v *View) HostVolumesByNode(nodeID string) []*model.HostVolume {
	return hostVolumeTable.in(v.t).list(hostVolumesByNode, nodeID)
}

// HostVolumeUsers returns the allocs that have not ended on the volume's node and have asked
// for it. This is all that is known of its use: nothing is counted.
func (v *View) HostVolumeUsers(vol *model.HostVolume) (out []*model.Allocation) {
	for a := range v.NodeAllocs(vol.NodeID) {
		if !a.ClientTerminalStatus() && a.Namespace == vol.Namespace && v.asksFor(a, vol.Name) {
			out = append(out, a)
		}
	}
	return out
}

func (v *View) asksFor(a *model.Allocation, name string) bool {
	job := v.JobOf(a)
	if job == nil {
		return false
	}
	tg := job.LookupTaskGroup(a.TaskGroup)
	if tg == nil {
		return false
	}
	for _, r := range tg.Volumes {
		if r.IsHost() && r.VolumeName(a.Index()) == name {
			return true
		}
	}
	return false
}

// UpsertHostVolume stores a host volume. The transaction takes ownership of row.
func (tx *Tx) UpsertHostVolume(row *model.HostVolume) {
	row.CreateIndex, row.ModifyIndex, row.CreateTime = tx.index, tx.index, row.ModifyTime
	if old := hostVolumeTable.in(tx.t).get(row.ID); old != nil {
		row.CreateIndex, row.CreateTime, row.State = old.CreateIndex, old.CreateTime, old.State
	}
	row.State = row.StateOn(nodeTable.in(tx.t).get(row.NodeID))
	record(tx, hostVolumeTable, hostVolumeTable.in(tx.t).put(row), row)
}

// DeletingHostVolume sets whether a volume is being removed. Its node counts as changed, so
// that plans that were verified before place nothing there.
func (tx *Tx) DeletingHostVolume(id string, deleting bool) error {
	old := hostVolumeTable.in(tx.t).get(id)
	if old == nil {
		return hostVolumeNotFound(id)
	}
	row := *old
	row.Deleting = deleting
	tx.UpsertHostVolume(&row)
	if n := nodeTable.in(tx.t).get(row.NodeID); n != nil && deleting {
		c := *n
		tx.writeNode(&c)
	}
	return nil
}

// DeleteHostVolume removes a volume and the claims on it.
func (tx *Tx) DeleteHostVolume(id string) error {
	old := hostVolumeTable.in(tx.t).delete(id)
	if old == nil {
		return hostVolumeNotFound(id)
	}
	record(tx, hostVolumeTable, old, nil)
	for _, c := range claimTable.in(tx.t).list(claimsByVolume, id) {
		tx.DeleteVolumeClaim(c.ID)
	}
	return nil
}

// followHostVolumes derives the states of a node's volumes again. n is nil if the node was
// removed.
func (tx *Tx) followHostVolumes(nodeID string, n *model.Node) {
	for _, old := range hostVolumeTable.in(tx.t).list(hostVolumesByNode, nodeID) {
		row := *old
		row.State = old.StateOn(n)
		if row.State == model.HostVolumeReady && row.HostPath == "" { // servers have lost the node's answer
			row.HostPath = n.HostVolumes[row.Name].Path
		}
		if row.State == old.State && row.HostPath == old.HostPath {
			continue
		}
		row.ModifyIndex = tx.index
		record(tx, hostVolumeTable, hostVolumeTable.in(tx.t).put(&row), &row)
	}
}

func hostVolumeNotFound(id string) error { return errdefs.NotFoundf("host volume %q not found", id) }
