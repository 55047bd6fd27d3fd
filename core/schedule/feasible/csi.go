// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible

import (
	"slices"

	"github.com/drover-project/drover/core/model"
)

// ReasonCSIVolume is the reason for a volume that does not exist, before its id.
const ReasonCSIVolume = "missing CSI volume(s) "

// csiMountsOf returns the volumes of type csi that an alloc of a group requests.
func csiMountsOf(job *model.Job, tg *model.TaskGroup, alloc string) (out []mount) {
	index := (&model.Allocation{Name: alloc}).Index()
	for _, name := range tg.CSIRequests() {
		out = append(out, mount{job: job, group: tg.Name, alloc: alloc, index: index, ask: tg.Volumes[name]})
	}
	return out
}

func csiMountsOfAlloc(s VolumeView, a *model.Allocation) []mount {
	job, tg := groupOfAlloc(s, a)
	if tg == nil {
		return nil
	}
	return csiMountsOf(job, tg, a.Name)
}

// csiRefused returns the volume that the alloc requests, and why it cannot use it on n,
// regardless of who uses it, or "".
func (m *mount) csiRefused(s VolumeView, n *model.Node) (*model.CSIVolume, string) {
	vol := s.CSIVolumeByID(m.job.Namespace, m.name())
	if vol == nil {
		return nil, ReasonCSIVolume + m.name()
	}
	if why := vol.Refuses(m.ask); why != "" {
		return nil, why
	}
	switch on := n.CSINodePlugins[vol.PluginID]; {
	case on == nil:
		return nil, "CSI plugin " + vol.PluginID + " is missing"
	case vol.Driver != "" && on.Provider != "" && on.Provider != vol.Driver:
		return nil, "CSI plugin " + vol.PluginID + " of the node is the driver " + on.Provider + ", and CSI volume " + vol.ID + " is one of the driver " + vol.Driver
	case !on.Healthy:
		return nil, "CSI plugin " + vol.PluginID + " is unhealthy"
	case on.NodeInfo != nil && !vol.AccessibleFrom(on.NodeInfo.AccessibleTopology):
		return nil, "CSI volume " + vol.ID + " is not accessible from the location of the node"
	}
	return vol, ""
}

// csiTaken returns why the alloc cannot use a volume on n beside those that hold it in the
// state or are placed by the plan, or "". Those for which gives is true do not count: the
// alloc that it replaces gives the volume up before it starts. All others count until they
// have ended, even if they were asked to stop.
func (m *mount) csiTaken(s VolumeView, n *model.Node, vol *model.CSIVolume, placed []*model.Allocation, gives func(*model.Allocation) bool) string {
	use := model.CSIUseOf(n.ID, m.ask)
	if why := usersOf(s, vol, placed, gives, use.Excludes); why != "" {
		return "CSI volume " + vol.ID + " " + why
	}
	for _, twin := range s.CSIVolumeTwins(vol) {
		if why := usersOf(s, twin, placed, gives, use.Clashes); why != "" {
			return "CSI volume " + vol.ID + " is volume " + twin.ID + " of namespace " + twin.Namespace + " in the storage system, which " + why
		}
	}
	return ""
}

// usersOf returns what is against those who use a volume in the state or will by the plan, or "".
func usersOf(s VolumeView, vol *model.CSIVolume, placed []*model.Allocation, gives func(*model.Allocation) bool, against func(model.CSIUse) string) string {
	for _, list := range [][]*model.Allocation{s.CSIVolumeHolders(vol.Namespace, vol.ID), placed} {
		for _, a := range list {
			if a.Namespace != vol.Namespace || gives(a) {
				continue
			}
			for _, other := range csiMountsOfAlloc(s, a) {
				if other.name() != vol.ID {
					continue
				}
				if why := against(model.CSIUseOf(a.NodeID, other.ask)); why != "" {
					return why
				}
			}
		}
	}
	return ""
}

// csiCrowded returns a reason if n has as many volumes of the driver as it can, and vol is
// not one of them, or "".
func csiCrowded(s VolumeView, n *model.Node, vol *model.CSIVolume, onNode []*model.Allocation) string {
	on := n.CSINodePlugins[vol.PluginID]
	if on == nil || on.NodeInfo == nil || on.NodeInfo.MaxVolumes <= 0 || on.NodeInfo.MaxVolumes > int64(len(onNode)*maxCSIMounts) {
		return ""
	}
	has := map[string]bool{}
	for _, a := range onNode {
		for _, m := range csiMountsOfAlloc(s, a) {
			if other := s.CSIVolumeByID(a.Namespace, m.name()); other != nil && other.PluginID == vol.PluginID {
				has[other.ExternalID] = true
			}
		}
	}
	if !has[vol.ExternalID] && int64(len(has)) >= on.NodeInfo.MaxVolumes {
		return "CSI plugin " + vol.PluginID + " has the maximum number of volumes"
	}
	return ""
}

// maxCSIMounts is more volumes than an alloc has in practice: below so many for each alloc
// of a node its volumes are not counted.
const maxCSIMounts = 16

// csiFit returns why a new alloc cannot use the volumes of type csi that it requests on n,
// or "". onNode are the allocs that use n, and placed the new allocs on all nodes.
func csiFit(s VolumeView, n *model.Node, ms []mount, onNode, placed []*model.Allocation, gives func(*model.Allocation) bool) string {
	for i := range ms {
		vol, why := ms[i].csiRefused(s, n)
		if why == "" {
			why = ms[i].csiTaken(s, n, vol, placed, gives)
		}
		if why == "" {
			why = csiCrowded(s, n, vol, onNode)
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// HasCSI reports whether the group requests volumes of type csi.
func (c *Checker) HasCSI() bool { return c.csi }

// MayAttach returns why an alloc with a name, which replaces another one or none, cannot use
// the volumes of type csi that it requests on n, or "".
func (c *Checker) MayAttach(n *model.Node, alloc, previous string, onNode, placed []*model.Allocation) string {
	if !c.csi || c.state == nil {
		return ""
	}
	return csiFit(c.state, n, csiMountsOf(c.job, c.tg, alloc), onNode, placed, func(a *model.Allocation) bool { return a.ID == previous })
}

// checkCSI returns why no alloc of the group can use the volumes of type csi on n, or "".
// Allocs of the job itself may be replaced, so those that hold a volume are left to
// MayAttach, as are volumes of single allocs.
func (c *Checker) checkCSI(n *model.Node) string {
	own := func(a *model.Allocation) bool { return a.JobID == c.job.ID }
	for _, v := range c.volumes {
		if !v.IsCSI() || v.PerAlloc {
			continue
		}
		m := mount{job: c.job, group: c.tg.Name, ask: v}
		vol, why := m.csiRefused(c.state, n)
		if why == "" {
			why = m.csiTaken(c.state, n, vol, nil, own)
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// fitsCSI returns why the placed allocs cannot use the volumes of type csi that they request
// on n, or "". elsewhere returns the allocs that the plan places on other nodes.
func fitsCSI(v PlanView, n *model.Node, place []*model.Allocation, elsewhere func() []*model.Allocation) string {
	var onNode, others []*model.Allocation
	asked := false
	for i, a := range place {
		ms := csiMountsOfAlloc(v, a)
		if len(ms) == 0 {
			continue
		}
		if !asked {
			asked, onNode = true, Holders(v, n.ID, nil)
			if elsewhere != nil {
				others = elsewhere()
			}
		}
		gives := func(other *model.Allocation) bool { return other.ID == a.PreviousAllocation || other.ID == a.ID }
		if why := csiFit(v, n, ms, slices.Concat(onNode, place[:i]), slices.Concat(others, place[:i]), gives); why != "" {
			return why
		}
	}
	return ""
}
