// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Modes returns the access mode and the attachment mode that the request has, or by default
// if it names none.
func (r *VolumeRequest) Modes() (access, attachment string) {
	access, attachment = r.AccessMode, r.AttachmentMode
	if access == "" {
		access = AccessSingleNodeWriter
	}
	if attachment == "" {
		attachment = AttachmentFileSystem
	}
	return access, attachment
}

// Writes reports whether tasks may write to the volume.
func (r *VolumeRequest) Writes() bool { return !r.ReadOnly && r.AccessMode != AccessSingleNodeReader }

// VolumeName returns the name of the volume that an alloc of the group needs.
func (r *VolumeRequest) VolumeName(index int) string {
	if r.PerAlloc {
		return r.Source + "[" + strconv.Itoa(index) + "]"
	}
	return r.Source
}

// IsHost reports whether the request is for a host volume.
func (r *VolumeRequest) IsHost() bool { return r != nil && (r.Type == "host" || r.Type == "") }

// IsCSI reports whether the request is for a volume of type csi.
func (r *VolumeRequest) IsCSI() bool { return r != nil && r.Type == "csi" }

// CSIRequests returns the names of the group's volumes of type csi, sorted.
func (tg *TaskGroup) CSIRequests() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(tg.Volumes)) {
		if tg.Volumes[name].IsCSI() {
			out = append(out, name)
		}
	}
	return out
}

// StickyClaims returns the claims that an alloc of the group needs, without the volumes: one
// for each sticky volume. System jobs need none, since their allocs belong to nodes.
func (tg *TaskGroup) StickyClaims(job *Job, a *Allocation) (out []*VolumeClaim) {
	if job.Type == JobTypeSystem || job.Type == JobTypeSysBatch {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(tg.Volumes)) {
		if r := tg.Volumes[name]; r.IsHost() && r.Sticky {
			out = append(out, r.Claim(job, tg.Name, a.Name, a.Index(), a.ID))
		}
	}
	return out
}

// Claim returns the claim of an alloc on the volume of a request, without the volume.
func (r *VolumeRequest) Claim(job *Job, group, allocName string, index int, allocID string) *VolumeClaim {
	return &VolumeClaim{
		Namespace: job.Namespace, JobID: job.ID, TaskGroupName: group, AllocName: allocName, AllocID: allocID, VolumeName: r.VolumeName(index),
	}
}

func (tg *TaskGroup) validateVolumes(p *ValidationError, j *Job) {
	for _, name := range slices.Sorted(maps.Keys(tg.Volumes)) {
		v := tg.Volumes[name]
		if v == nil {
			p.addf("Volume %s is null; remove it", name)
			continue
		}
		var part ValidationError
		if v.Source == "" {
			part.addf("volume has an empty source")
		}
		switch v.Type {
		case "host":
			v.validateHost(&part)
		case "csi":
			v.validateCSI(&part)
		default:
			part.addf("volume has unrecognized type %q", v.Type)
		}
		v.validatePerAlloc(tg, j, &part)
		p.under("Task group volume validation for "+name+" failed", part)
	}
}

func (r *VolumeRequest) validateHost(p *ValidationError) {
	access, attachment := r.Modes()
	if !slices.Contains(HostAccessModes, access) {
		p.addf("host volumes have no access mode %q: use one of %s", access, strings.Join(HostAccessModes, ", "))
	}
	if access == AccessSingleNodeReader && !r.ReadOnly {
		p.addf("access mode %q needs read_only = true", access)
	}
	if attachment != AttachmentFileSystem {
		p.addf("host volumes have no attachment mode %q: a host volume is a directory, use %q", attachment, AttachmentFileSystem)
	}
	if r.MountOptions != nil {
		p.addf("host volumes have no mount_options: a host volume is a directory of the node")
	}
}

// validateCSI says what is missing before what is wrong, as the reference does.
func (r *VolumeRequest) validateCSI(p *ValidationError) {
	switch {
	case r.AttachmentMode == "" || r.AccessMode == "":
		if r.AttachmentMode == "" {
			p.addf("CSI volumes must have an attachment mode")
		}
		if r.AccessMode == "" {
			p.addf("CSI volumes must have an access mode")
		}
	case r.AttachmentMode != AttachmentFileSystem && r.AttachmentMode != AttachmentBlockDevice:
		p.addf("CSI volumes have no attachment mode %q: use %q or %q", r.AttachmentMode, AttachmentFileSystem, AttachmentBlockDevice)
	case !slices.Contains(CSIAccessModes, r.AccessMode):
		p.addf("CSI volumes have no access mode %q: use one of %s", r.AccessMode, strings.Join(CSIAccessModes, ", "))
	}
	if (r.AccessMode == AccessSingleNodeReader || r.AccessMode == AccessMultiNodeReader) && !r.ReadOnly {
		p.addf("access mode %q needs read_only = true", r.AccessMode)
	}
	if r.MountOptions != nil && r.AttachmentMode == AttachmentBlockDevice {
		p.addf("a volume with attachment mode %q is not mounted: remove mount_options", AttachmentBlockDevice)
	}
	if r.Sticky {
		p.addf("only host volumes can be sticky; a CSI volume follows its alloc to every node")
	}
}

func (r *VolumeRequest) validatePerAlloc(tg *TaskGroup, j *Job, p *ValidationError) {
	if !r.PerAlloc {
		return
	}
	if j.Type == JobTypeSystem || j.Type == JobTypeSysBatch {
		p.addf("volume cannot be per_alloc for system or sysbatch jobs")
	}
	if u := tg.Update; u != nil && u.Canary > 0 {
		p.addf("volume cannot be per_alloc when canaries are in use")
	}
	if head, _, has := strings.Cut(r.Source, "["); has {
		p.addf("the source %q of a volume with per_alloc gets the index of the alloc, such as %s[0]; leave it out", r.Source, head)
	}
}
