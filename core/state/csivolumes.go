// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"iter"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// TableCSIVolumes is the name of the table of volumes of type csi.
const TableCSIVolumes = "csi_volumes"

const (
	csiVolumesByPlugin = iota
	csiVolumesByExternal
)

var csiVolumeTable = &kind[model.CSIVolume]{
	heading: heading{name: TableCSIVolumes},
	schema: schema[model.CSIVolume]{
		id: func(v *model.CSIVolume) string { return JobKey(v.Namespace, v.ID) },
		secondaries: []secondary[model.CSIVolume]{
			csiVolumesByPlugin:   {name: "plugin", key: func(v *model.CSIVolume) string { return v.PluginID }},
			csiVolumesByExternal: {name: "external", key: externalKey},
		},
	},
	record: 82,
}

// externalKey identifies a volume in the storage systems of all drivers; "" if it has none yet.
func externalKey(v *model.CSIVolume) string {
	if v.ExternalID == "" {
		return ""
	}
	return v.PluginID + "\x00" + v.ExternalID
}

// csiHold says that an alloc that has not ended asks for a volume, which need not exist.
type csiHold struct{ Volume, AllocID string }

const csiHoldsByAlloc = 0

// Who holds volumes is derived from allocs, so it is not saved.
var csiHoldTable = &kind[csiHold]{
	schema: schema[csiHold]{
		id:          func(h *csiHold) string { return h.Volume + "\x00" + h.AllocID },
		secondaries: []secondary[csiHold]{csiHoldsByAlloc: {name: "alloc", key: func(h *csiHold) string { return h.AllocID }}},
	},
}

// csiSite is a node that reports a driver.
type csiSite struct{ Plugin, NodeID string }

// Which nodes have drivers is derived from nodes, so it is not saved.
var csiSiteTable = &kind[csiSite]{
	schema: schema[csiSite]{id: func(s *csiSite) string { return s.Plugin + "\x00" + s.NodeID }},
}

// CSIVolumeByID returns a volume of type csi.
func (v *View) CSIVolumeByID(ns, id string) *model.CSIVolume {
	return csiVolumeTable.in(v.t).get(JobKey(ns, id))
}

// CSIVolumes yields all volumes of type csi ordered by namespace and id.
func (v *View) CSIVolumes() iter.Seq[*model.CSIVolume] { return csiVolumeTable.in(v.t).all("") }

// CSIVolumesByPlugin returns the volumes of a driver.
func (v *View) CSIVolumesByPlugin(plugin string) []*model.CSIVolume {
	return csiVolumeTable.in(v.t).list(csiVolumesByPlugin, plugin)
}

// CSIVolumeTwins returns the other volumes that are the same one in the storage system: it may
// be registered several times, also in several namespaces.
func (v *View) CSIVolumeTwins(vol *model.CSIVolume) (out []*model.CSIVolume) {
	key := externalKey(vol)
	if key == "" {
		return nil
	}
	for _, other := range csiVolumeTable.in(v.t).list(csiVolumesByExternal, key) {
		if (other.ID != vol.ID || other.Namespace != vol.Namespace) && (other.Driver == vol.Driver || other.Driver == "" || vol.Driver == "") {
			out = append(out, other)
		}
	}
	return out
}

// CSIVolumeHolders returns the allocs that have not ended and ask for a volume, ordered by
// id. This is all that is known of its use: nothing is counted.
func (v *View) CSIVolumeHolders(ns, id string) (out []*model.Allocation) {
	prefix := JobKey(ns, id) + "\x00"
	for h := range csiHoldTable.in(v.t).all(prefix) {
		if !strings.HasPrefix(h.Volume+"\x00", prefix) {
			break
		}
		if a := allocTable.in(v.t).get(h.AllocID); a != nil {
			out = append(out, a)
		}
	}
	return out
}

// CSIPluginByID returns a driver that nodes report, nil if none does.
func (v *View) CSIPluginByID(id string) *model.CSIPlugin {
	var p *model.CSIPlugin
	for s := range csiSiteTable.in(v.t).all(id + "\x00") {
		if s.Plugin != id {
			break
		}
		if p == nil {
			p = &model.CSIPlugin{
				ID: id, Controllers: map[string]*model.CSIInfo{}, Nodes: map[string]*model.CSIInfo{},
				ControllerJobs: map[string]map[string]*model.CSIPluginJob{}, NodeJobs: map[string]map[string]*model.CSIPluginJob{},
			}
		}
		v.addSite(p, s.NodeID)
	}
	if p != nil {
		p.Provider = p.Providers()
	}
	return p
}

func (v *View) addSite(p *model.CSIPlugin, nodeID string) {
	n := nodeTable.in(v.t).get(nodeID)
	if n == nil {
		return
	}
	if c := n.CSIControllerPlugins[p.ID]; c != nil {
		p.Controllers[nodeID] = v.siteOf(p, p.ControllerJobs, n, c)
	}
	if c := n.CSINodePlugins[p.ID]; c != nil {
		p.Nodes[nodeID] = v.siteOf(p, p.NodeJobs, n, c)
	}
	p.ModifyIndex = max(p.ModifyIndex, n.ModifyIndex)
}

// siteOf returns what a node reports of a driver; nothing is healthy on a node that is out
// of reach.
func (v *View) siteOf(p *model.CSIPlugin, jobs map[string]map[string]*model.CSIPluginJob, n *model.Node, c *model.CSIInfo) *model.CSIInfo {
	p.Version = c.ProviderVersion
	p.ControllerRequired = p.ControllerRequired || c.RequiresControllerPlugin
	p.ModifyTime = max(p.ModifyTime, c.UpdateTime.UnixNano())
	v.addPluginJob(p, jobs, c.AllocID)
	if c.Healthy && n.Status != model.NodeStatusReady {
		down := *c
		down.Healthy, down.HealthDescription = false, "node is "+n.Status
		return &down
	}
	return c
}

func (v *View) addPluginJob(p *model.CSIPlugin, jobs map[string]map[string]*model.CSIPluginJob, allocID string) {
	a := allocTable.in(v.t).get(allocID)
	if a == nil {
		return
	}
	job := v.JobByID(a.Namespace, a.JobID)
	if job == nil || jobs[a.Namespace][a.JobID] != nil {
		return
	}
	if jobs[a.Namespace] == nil {
		jobs[a.Namespace] = map[string]*model.CSIPluginJob{}
	}
	row := &model.CSIPluginJob{Namespace: a.Namespace, ID: a.JobID}
	jobs[a.Namespace][a.JobID] = row
	tg := job.LookupTaskGroup(a.TaskGroup)
	switch {
	case job.Stop || tg == nil:
	case job.Type == model.JobTypeSystem || job.Type == model.JobTypeSysBatch:
		for _, other := range v.AllocsByJob(a.Namespace, a.JobID) {
			if other.TaskGroup == a.TaskGroup && !other.TerminalStatus() {
				row.Expected++
			}
		}
	default:
		row.Expected = tg.Count
	}
	if p.CreateIndex == 0 || job.CreateIndex < p.CreateIndex {
		p.CreateIndex, p.CreateTime = job.CreateIndex, job.SubmitTime
	}
}

// CSIPlugins returns the drivers that nodes report, ordered by id.
func (v *View) CSIPlugins() (out []*model.CSIPlugin) {
	last := ""
	for s := range csiSiteTable.in(v.t).all("") {
		if s.Plugin == last {
			continue
		}
		last = s.Plugin
		if p := v.CSIPluginByID(s.Plugin); p != nil {
			out = append(out, p)
		}
	}
	return out
}

// UpsertCSIVolume stores a volume. The transaction takes ownership of row.
func (tx *Tx) UpsertCSIVolume(row *model.CSIVolume) {
	row.CreateIndex, row.ModifyIndex, row.CreateTime = tx.index, tx.index, row.ModifyTime
	if old := csiVolumeTable.in(tx.t).get(JobKey(row.Namespace, row.ID)); old != nil {
		row.CreateIndex, row.CreateTime = old.CreateIndex, old.CreateTime
	}
	record(tx, csiVolumeTable, csiVolumeTable.in(tx.t).put(row), row)
}

// DeleteCSIVolume removes a volume.
func (tx *Tx) DeleteCSIVolume(ns, id string) error {
	old := csiVolumeTable.in(tx.t).delete(JobKey(ns, id))
	if old == nil {
		return errdefs.NotFoundf("volume not found: %s", id)
	}
	record(tx, csiVolumeTable, old, nil)
	return nil
}

// accountHolds derives anew which volumes an alloc holds.
func (tx *Tx) accountHolds(old, a *model.Allocation) {
	held := old != nil && !old.ClientTerminalStatus()
	holds := a != nil && !a.ClientTerminalStatus()
	if held == holds && (!held || old.JobVersion == a.JobVersion) {
		return
	}
	if held && csiHoldTable.in(tx.t).len() > 0 {
		for _, h := range csiHoldTable.in(tx.t).list(csiHoldsByAlloc, old.ID) {
			csiHoldTable.in(tx.t).delete(h.Volume + "\x00" + h.AllocID)
		}
	}
	if !holds {
		return
	}
	job := tx.View().JobOf(a)
	if job == nil {
		return
	}
	tg := job.LookupTaskGroup(a.TaskGroup)
	if tg == nil || len(tg.Volumes) == 0 {
		return
	}
	for _, r := range tg.Volumes {
		if r.IsCSI() {
			csiHoldTable.in(tx.t).put(&csiHold{Volume: JobKey(a.Namespace, r.VolumeName(a.Index())), AllocID: a.ID})
		}
	}
}

// accountSites derives anew which drivers a node reports.
func (tx *Tx) accountSites(old, n *model.Node) {
	if old != nil {
		for _, plugins := range []map[string]*model.CSIInfo{old.CSIControllerPlugins, old.CSINodePlugins} {
			for id := range plugins {
				csiSiteTable.in(tx.t).delete(id + "\x00" + old.ID)
			}
		}
	}
	if n == nil {
		return
	}
	for _, plugins := range []map[string]*model.CSIInfo{n.CSIControllerPlugins, n.CSINodePlugins} {
		for id, info := range plugins {
			if info != nil {
				csiSiteTable.in(tx.t).put(&csiSite{Plugin: id, NodeID: n.ID})
			}
		}
	}
}
