// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"strconv"

	"github.com/drover-project/drover/core/model"
)

const (
	claimsBySlot = iota
	claimsByJob
	claimsByVolume
)

// TableVolumeClaims is the name of the table of claims on sticky host volumes.
const TableVolumeClaims = "host_volume_claims"

var claimTable = &kind[model.VolumeClaim]{
	heading: heading{name: TableVolumeClaims},
	schema: schema[model.VolumeClaim]{
		id: func(c *model.VolumeClaim) string { return c.ID },
		secondaries: []secondary[model.VolumeClaim]{
			claimsBySlot:   {name: "slot", key: (*model.VolumeClaim).Slot},
			claimsByJob:    {name: ByJob, watched: true, key: func(c *model.VolumeClaim) string { return JobKey(c.Namespace, c.JobID) }},
			claimsByVolume: {name: "volume", key: func(c *model.VolumeClaim) string { return c.VolumeID }},
		},
	},
	record: 81,
}

// VolumeClaimByID returns a claim.
func (v *View) VolumeClaimByID(id string) *model.VolumeClaim { return claimTable.in(v.t).get(id) }

// VolumeClaims yields all claims ordered by id.
func (v *View) VolumeClaims() iter.Seq[*model.VolumeClaim] { return claimTable.in(v.t).all("") }

// VolumeClaimOf returns the claim for what c is for, nil if there is none.
func (v *View) VolumeClaimOf(c *model.VolumeClaim) *model.VolumeClaim {
	for row := range claimTable.in(v.t).scan(claimsBySlot, c.Slot()) {
		return row
	}
	return nil
}

// DeleteVolumeClaim removes a claim, if it exists.
func (tx *Tx) DeleteVolumeClaim(id string) {
	if old := claimTable.in(tx.t).delete(id); old != nil {
		record(tx, claimTable, old, nil)
	}
}

// dropClaims removes the claims of a job.
func (tx *Tx) dropClaims(ns, jobID string) {
	for _, c := range claimTable.in(tx.t).list(claimsByJob, JobKey(ns, jobID)) {
		tx.DeleteVolumeClaim(c.ID)
	}
}

// claimVolumes binds the name of a new alloc to the sticky volumes that it gets on its node.
func (tx *Tx) claimVolumes(a *model.Allocation) {
	if hostVolumeTable.in(tx.t).len() == 0 {
		return
	}
	v := tx.View()
	job, n := v.JobOf(a), v.NodeByID(a.NodeID)
	if job == nil || n == nil {
		return
	}
	tg := job.LookupTaskGroup(a.TaskGroup)
	if tg == nil {
		return
	}
	for _, c := range tg.StickyClaims(job, a) {
		on := n.HostVolumes[c.VolumeName]
		if on == nil || on.ID == "" || hostVolumeTable.in(tx.t).get(on.ID) == nil {
			continue
		}
		c.VolumeID, c.CreateIndex, c.ModifyIndex = on.ID, tx.index, tx.index
		if had := v.VolumeClaimOf(c); had != nil {
			c.ID, c.CreateIndex = had.ID, had.CreateIndex
		} else {
			c.ID = claimID(c)
		}
		record(tx, claimTable, claimTable.in(tx.t).put(c), c)
	}
}

// claimID returns the id of a new claim. It follows from what the claim is for, since
// applying an entry is deterministic.
func claimID(c *model.VolumeClaim) string {
	sum := sha256.Sum256([]byte(c.Slot() + "\x00" + strconv.FormatUint(c.CreateIndex, 10)))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // a UUID of version 8
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
