// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible

import (
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/model"
)

// VolumeView is what the rules of volumes read of the state.
type VolumeView interface {
	HostVolumeByID(id string) *model.HostVolume
	HostVolumesByNode(nodeID string) []*model.HostVolume
	// VolumeClaimOf returns the claim for what c is for, nil if there is none.
	VolumeClaimOf(c *model.VolumeClaim) *model.VolumeClaim
	JobOf(a *model.Allocation) *model.Job
	CSIVolumeByID(namespace, id string) *model.CSIVolume
	// CSIVolumeHolders returns the allocs that have not ended and ask for a volume of type
	// csi.
	CSIVolumeHolders(namespace, id string) []*model.Allocation
	// CSIVolumeTwins returns the other volumes that are the same one in the storage system.
	CSIVolumeTwins(vol *model.CSIVolume) []*model.CSIVolume
}

// mount is a host volume that an alloc requests.
type mount struct {
	job   *model.Job
	group string
	alloc string // name of the alloc
	index int    // in the name
	ask   *model.VolumeRequest
}

// mountsOf returns the host volumes that an alloc of a group requests.
func mountsOf(job *model.Job, tg *model.TaskGroup, alloc string) (out []mount) {
	index := (&model.Allocation{Name: alloc}).Index()
	for _, v := range tg.Volumes {
		if v.IsHost() {
			out = append(out, mount{job: job, group: tg.Name, alloc: alloc, index: index, ask: v})
		}
	}
	return out
}

func (m *mount) name() string { return m.ask.VolumeName(m.index) }

// alone reports whether the alloc must be the only one that writes to the volume.
func (m *mount) alone() bool {
	return m.ask.Writes() && m.ask.AccessMode == model.AccessSingleNodeSingleWriter
}

// refused returns why the alloc cannot use the volume that n has for it, regardless of who
// uses it, or "".
func (m *mount) refused(s VolumeView, n *model.Node) string {
	on := n.HostVolumes[m.name()]
	if on == nil {
		return ReasonHostVolumes
	}
	if on.ID == "" {
		return m.refusedStatic(on)
	}
	vol := s.HostVolumeByID(on.ID)
	switch {
	case vol == nil || vol.NodeID != n.ID || vol.Namespace != m.job.Namespace:
		return ReasonHostVolumes
	case vol.Deleting:
		return "host volume " + strconv.Quote(vol.Name) + " is being deleted"
	}
	if why := vol.Refuses(m.ask); why != "" || !m.sticks() {
		return why
	}
	if c := s.VolumeClaimOf(m.ask.Claim(m.job, m.group, m.alloc, m.index, "")); c != nil && c.VolumeID != vol.ID {
		return "sticky host volume " + strconv.Quote(vol.Name) + " of the alloc is another one"
	}
	return ""
}

// refusedStatic is refused for a volume of an agent's configuration, of which servers know
// only the name. All allocs may write to it.
func (m *mount) refusedStatic(on *model.HostVolumeConfig) string {
	access, attachment := m.ask.Modes()
	switch {
	case on.ReadOnly && m.ask.Writes():
		return ReasonHostVolumes
	case access == model.AccessSingleNodeSingleWriter || attachment != model.AttachmentFileSystem:
		return "host volume " + strconv.Quote(on.Name) + " is static: it does not offer access mode " + strconv.Quote(access) + " with attachment mode " + strconv.Quote(attachment)
	case m.sticks():
		return "host volume " + strconv.Quote(on.Name) + " is static: it cannot be sticky"
	}
	return ""
}

// sticks reports whether the alloc's name is bound to its volume.
func (m *mount) sticks() bool {
	return m.ask.Sticky && m.job.Type != model.JobTypeSystem && m.job.Type != model.JobTypeSysBatch
}

// taken returns a reason if one of the holders on n and the alloc would both write to a
// volume to which one of them wants to write alone, or "". The alloc that it replaces does
// not count, since the node starts the new one when that one has ended. All others count
// until they have ended, even if they were asked to stop: nothing waits for them.
func (m *mount) taken(s VolumeView, n *model.Node, previous string, holders []*model.Allocation) string {
	if on := n.HostVolumes[m.name()]; on == nil || on.ID == "" || !m.ask.Writes() {
		return ""
	}
	for _, a := range holders {
		if a.ID == previous {
			continue
		}
		for _, other := range mountsOfAlloc(s, a) {
			if other.name() == m.name() && other.ask.Writes() && (m.alone() || other.alone()) {
				return "host volume " + strconv.Quote(m.name()) + " has a writer"
			}
		}
	}
	return ""
}

func mountsOfAlloc(s VolumeView, a *model.Allocation) []mount {
	job, tg := groupOfAlloc(s, a)
	if tg == nil {
		return nil
	}
	return mountsOf(job, tg, a.Name)
}

// groupOfAlloc returns the job of an alloc and its group, nil if the group requests no
// volumes or the state no longer has them.
func groupOfAlloc(s VolumeView, a *model.Allocation) (*model.Job, *model.TaskGroup) {
	job := a.Job
	if job == nil {
		job = s.JobOf(a)
	}
	if job == nil {
		return nil, nil
	}
	tg := job.LookupTaskGroup(a.TaskGroup)
	if tg == nil || len(tg.Volumes) == 0 {
		return nil, nil
	}
	return job, tg
}

// mountsFit returns why a new alloc on n cannot use the volumes that it requests while the
// holders use them, or "".
func mountsFit(s VolumeView, n *model.Node, ms []mount, previous string, holders []*model.Allocation) string {
	for i := range ms {
		if why := ms[i].refused(s, n); why != "" {
			return why
		}
		if why := ms[i].taken(s, n, previous, holders); why != "" {
			return why
		}
	}
	return ""
}

// Mounts reports whether the group requests volumes.
func (c *Checker) Mounts() bool { return c.mounts }

// Named reports whether allocs of the group differ, by their names, in the nodes on which
// they may run, since each has a volume of its own.
func (c *Checker) Named() bool {
	for _, v := range c.volumes {
		if v.PerAlloc || v.IsHost() && v.Sticky {
			return true
		}
	}
	return false
}

// MayMount returns why an alloc with a name, which replaces another one or none, cannot use
// the volumes that it requests of n beside the holders, or "".
func (c *Checker) MayMount(n *model.Node, alloc, previous string, holders []*model.Allocation) string {
	if !c.mounts || c.state == nil {
		return ""
	}
	return mountsFit(c.state, n, mountsOf(c.job, c.tg, alloc), previous, holders)
}

// checkMounts returns why no alloc of the group can use the volumes of n, or "". Volumes of
// single allocs are left to MayMount.
func (c *Checker) checkMounts(n *model.Node) string {
	for _, v := range c.volumes {
		if !v.IsHost() {
			continue
		}
		m := mount{job: c.job, group: c.tg.Name, ask: v}
		if v.PerAlloc {
			if !hasAny(n, v.Source+"[") {
				return ReasonHostVolumes
			}
			continue
		}
		if on := n.HostVolumes[v.Source]; on != nil && on.ID != "" && c.state == nil {
			continue
		}
		if why := m.refused(c.state, n); why != "" {
			return why
		}
	}
	return ""
}

// lostMounts returns why an alloc of the group that runs on n cannot stay there, or "". A
// volume that servers know and the node does not offer at the moment is no reason: its
// plugin may be making it again after a restart.
func (c *Checker) lostMounts(n *model.Node) string {
	for _, v := range c.volumes {
		if !v.IsHost() || v.PerAlloc {
			continue
		}
		on := n.HostVolumes[v.Source]
		switch {
		case on != nil && on.ReadOnly && v.Writes(), on == nil && !c.knows(n, v.Source):
			return ReasonHostVolumes
		}
	}
	return ""
}

func (c *Checker) knows(n *model.Node, name string) bool {
	return c.state != nil && slices.ContainsFunc(c.state.HostVolumesByNode(n.ID), func(v *model.HostVolume) bool { return v.Name == name })
}

func hasAny(n *model.Node, prefix string) bool {
	for name := range n.HostVolumes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// fitsVolumes returns why the placed allocs cannot use the host volumes that they request of
// n, or "".
func fitsVolumes(v PlanView, n *model.Node, place []*model.Allocation) string {
	if len(n.HostVolumes) == 0 {
		return "" // what was there is gone meanwhile: the allocs say so when they start
	}
	var holders []*model.Allocation
	for i, a := range place {
		ms := mountsOfAlloc(v, a)
		if len(ms) == 0 {
			continue
		}
		if holders == nil {
			holders = Holders(v, n.ID, nil)
		}
		if why := mountsFit(v, n, ms, a.PreviousAllocation, append(holders[:len(holders):len(holders)], place[:i]...)); why != "" {
			return why
		}
	}
	return ""
}
