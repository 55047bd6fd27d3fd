// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package claims

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Step is one call to the controller of a driver. It attaches a volume to a node that needs
// it, or detaches it from a node that does not.
type Step struct {
	Attachment *model.CSIAttachment // to detach: the present one; to attach: the new one
	Detach     bool                 // otherwise attach
	// Release means that the node can be reached and must first unmount the volume.
	Release bool
}

// Next returns the next step for a volume and when to ask again. The step is nil if nothing
// can be done now. It is pure.
//
// A volume stays attached to a node while an alloc there may use it, and is detached
// otherwise. Next decides this from the state alone, so if a server dies during a call, the
// next leader makes the call again. A step that was last tried before changed, when a node or
// a driver changed, is not waited for.
func Next(v *state.View, vol *model.CSIVolume, now, changed time.Time) (step *Step, wake time.Time) {
	holders := v.CSIVolumeHolders(vol.Namespace, vol.ID)
	if len(holders) == 0 && len(vol.Attachments) == 0 {
		return nil, time.Time{}
	}
	wanted := wantedBy(v, vol, holders)
	for _, node := range slices.Sorted(maps.Keys(vol.Attachments)) {
		at := vol.Attachments[node]
		if at == nil || matches(wanted[node], at) {
			continue
		}
		if at.State == model.CSIDetaching && waits(at, now, changed) {
			wake = earlier(wake, at.NextTry)
			continue
		}
		n := v.NodeByID(node)
		return &Step{Attachment: at, Detach: true, Release: n != nil && n.Status == model.NodeStatusReady}, wake
	}
	attaching, again := toAttach(v, vol, wanted, now, changed)
	if again != 0 {
		wake = earlier(wake, again)
	}
	if attaching != nil {
		return &Step{Attachment: attaching}, wake
	}
	return nil, wake
}

// waits reports whether the next try of a step that has failed is not due yet.
func waits(at *model.CSIAttachment, now, changed time.Time) bool {
	tried := time.Unix(0, at.NextTry).Add(-backoff(at.Failures))
	return at.NextTry > now.UnixNano() && !tried.Before(changed)
}

// backoff is the wait after a number of failures.
func backoff(failures int) time.Duration {
	return min(minBackoff<<min(max(failures-1, 0), 10), maxBackoff)
}

func earlier(at time.Time, ns int64) time.Time {
	if t := time.Unix(0, ns); at.IsZero() || t.Before(at) {
		return t
	}
	return at
}

// wantedBy returns how the volume should be attached to each node: as its allocs need it that
// no other use of the volume excludes.
func wantedBy(v *state.View, vol *model.CSIVolume, holders []*model.Allocation) map[string]model.CSIUse {
	wanted, others := map[string]model.CSIUse{}, rivalsOf(v, vol, holders)
	for _, a := range holders {
		r := requestOf(v, a, vol)
		if r == nil {
			continue
		}
		use := model.CSIUseOf(a.NodeID, r)
		if others.excluding(a, use) != nil {
			continue
		}
		if had, ok := wanted[a.NodeID]; ok {
			use.Writes = use.Writes || had.Writes
		}
		wanted[a.NodeID] = use
	}
	return wanted
}

// matches reports whether an attachment is what a node needs.
func matches(use model.CSIUse, at *model.CSIAttachment) bool {
	return use.NodeID == at.NodeID && use.AccessMode == at.AccessMode && use.AttachmentMode == at.AttachmentMode && (!use.Writes || !at.ReadOnly)
}

// toAttach returns an attachment that is to be made, or when one may be tried again.
func toAttach(v *state.View, vol *model.CSIVolume, wanted map[string]model.CSIUse, now, changed time.Time) (_ *model.CSIAttachment, again int64) {
	lacking := slices.DeleteFunc(slices.Sorted(maps.Keys(wanted)), func(node string) bool {
		at := vol.Attachments[node]
		return at != nil && at.State == model.CSIAttached
	})
	if len(lacking) == 0 || vol.State != "" {
		return nil, 0
	}
	p := v.CSIPluginByID(vol.PluginID).Of(vol.Driver) // it is put together from all nodes of the driver
	if p == nil {
		return nil, 0
	}
	if attaches, known := p.Attaches(vol); !attaches || !known {
		return nil, 0
	}
	for _, node := range lacking {
		use, at := wanted[node], vol.Attachments[node]
		on := p.Nodes[node]
		switch {
		case on == nil || !on.Healthy || on.NodeInfo == nil:
			continue
		case strings.HasPrefix(use.AccessMode, "single-node-") && elsewhere(vol, node) != nil:
			continue
		case at != nil && at.State == model.CSIAttaching && waits(at, now, changed):
			if again == 0 || at.NextTry < again {
				again = at.NextTry
			}
			continue
		}
		next := &model.CSIAttachment{
			NodeID: node, ExternalNodeID: on.NodeInfo.ID, AccessMode: use.AccessMode, AttachmentMode: use.AttachmentMode,
			ReadOnly: !use.Writes && readOnlyAttach(p), State: model.CSIAttaching, Since: now.UnixNano(),
		}
		if at != nil && at.State == model.CSIAttaching {
			next.Since, next.Failures, next.LastError = at.Since, at.Failures, at.LastError
		}
		return next, again
	}
	return nil, again
}

func readOnlyAttach(p *model.CSIPlugin) bool {
	for _, c := range p.Controllers {
		if c.ControllerInfo != nil {
			return c.ControllerInfo.SupportsReadOnlyAttach
		}
	}
	return false
}

// elsewhere returns an attachment of the volume to another node.
func elsewhere(vol *model.CSIVolume, node string) *model.CSIAttachment {
	for _, other := range slices.Sorted(maps.Keys(vol.Attachments)) {
		if at := vol.Attachments[other]; other != node && at != nil {
			return at
		}
	}
	return nil
}

func requestOf(v *state.View, a *model.Allocation, vol *model.CSIVolume) *model.VolumeRequest {
	if tg := groupOf(v, a); tg != nil {
		return tg.CSIRequest(vol.ID, a.Index())
	}
	return nil
}

func groupOf(v *state.View, a *model.Allocation) *model.TaskGroup {
	job := v.JobOf(a)
	if job == nil {
		return nil
	}
	return job.LookupTaskGroup(a.TaskGroup)
}

// rivals are the uses of a volume and of its twins, each with the oldest of the allocs that
// use it so. Whatever any of these allocs excludes, the oldest one excludes. There are few
// uses, and there may be thousands of allocs.
type rivals struct{ own, twins []rival }

type rival struct {
	use model.CSIUse
	by  *model.Allocation
}

func rivalsOf(v *state.View, vol *model.CSIVolume, holders []*model.Allocation) (all rivals) {
	all.own = usesOf(v, vol, holders, model.CSIUse.Kind)
	for _, twin := range v.CSIVolumeTwins(vol) {
		whole := func(u model.CSIUse) model.CSIUse { return u }
		all.twins = append(all.twins, usesOf(v, twin, v.CSIVolumeHolders(twin.Namespace, twin.ID), whole)...)
	}
	return all
}

// usesOf returns the uses of a volume, of those that are alike only one.
func usesOf(v *state.View, vol *model.CSIVolume, holders []*model.Allocation, alike func(model.CSIUse) model.CSIUse) (out []rival) {
	places := map[model.CSIUse]int{}
	for _, a := range holders {
		r := requestOf(v, a, vol)
		if r == nil {
			continue
		}
		use := model.CSIUseOf(a.NodeID, r)
		i, known := places[alike(use)]
		switch {
		case !known:
			places[alike(use)] = len(out)
			out = append(out, rival{use, a})
		case older(a, out[i].by):
			out[i].by = a
		}
	}
	return out
}

// excluding returns an alloc that has the volume in a way that excludes a, nil if none does.
// Of two allocs that exclude each other the older one has it: the scheduler places the other
// one only in its place.
func (all rivals) excluding(a *model.Allocation, use model.CSIUse) *model.Allocation {
	for _, other := range all.own {
		if older(other.by, a) && use.Excludes(other.use) != "" {
			return other.by
		}
	}
	for _, other := range all.twins {
		if older(other.by, a) && use.Clashes(other.use) != "" {
			return other.by
		}
	}
	return nil
}

// older reports whether other was placed before a: if both exclude each other, other keeps the
// volume.
func older(other, a *model.Allocation) bool {
	return other.CreateIndex < a.CreateIndex || other.CreateIndex == a.CreateIndex && other.ID < a.ID
}

// Grant is a volume that an alloc may use.
type Grant struct {
	Volume     *model.CSIVolume
	Request    *model.VolumeRequest
	Attachment *model.CSIAttachment // nil if the driver does not attach volumes
}

// Decide returns the volume that an alloc of a node asks for by the name of a request of its
// group. Unavailable: it must wait, and the text says for what. Other errors are final. It
// is pure.
func Decide(v *state.View, nodeID, allocID, name string) (*Grant, error) {
	a := v.AllocByID(allocID)
	switch {
	case a == nil || a.NodeID != nodeID:
		return nil, errdefs.PermissionDeniedf("node %q has no alloc %q, so it gets no volume for it", nodeID, allocID)
	case a.ClientTerminalStatus():
		return nil, errdefs.PermissionDeniedf("alloc %q has ended, so it gets no volumes", allocID)
	}
	tg := groupOf(v, a)
	if tg == nil || !tg.Volumes[name].IsCSI() {
		return nil, errdefs.InvalidArgumentf("the group of alloc %q has no volume %q of type csi", allocID, name)
	}
	r := tg.Volumes[name]
	vol := v.CSIVolumeByID(a.Namespace, r.VolumeName(a.Index()))
	if vol == nil {
		return nil, errdefs.InvalidArgumentf("volume %q does not exist in namespace %q; create or register it", r.VolumeName(a.Index()), a.Namespace)
	}
	if why := vol.Refuses(r); why != "" {
		return nil, errdefs.InvalidArgumentf("%s", why)
	}
	others := rivalsOf(v, vol, v.CSIVolumeHolders(vol.Namespace, vol.ID))
	if other := others.excluding(a, model.CSIUseOf(a.NodeID, r)); other != nil {
		return nil, errdefs.Unavailablef("volume %q is held by alloc %s (%s) on node %s, which has not ended%s", vol.ID, other.ID, other.Name, other.NodeID, wordsOf(other))
	}
	return decideAttached(v, vol, r, nodeID)
}

func decideAttached(v *state.View, vol *model.CSIVolume, r *model.VolumeRequest, nodeID string) (*Grant, error) {
	p := v.CSIPluginByID(vol.PluginID).Of(vol.Driver)
	if p == nil || p.Nodes[nodeID] == nil {
		return nil, errdefs.Unavailablef("volume %q needs the CSI driver %q, which does not run on this node at the moment", vol.ID, vol.PluginID)
	}
	if on := p.Nodes[nodeID]; !on.Healthy {
		return nil, errdefs.Unavailablef("volume %q needs the CSI driver %q, which is not healthy on this node: %s", vol.ID, vol.PluginID, on.HealthDescription)
	}
	attaches, known := p.Attaches(vol)
	switch {
	case !known:
		return nil, errdefs.Unavailablef("volume %q must be attached, and no node runs a controller of the CSI driver %q; start its job", vol.ID, vol.PluginID)
	case !attaches:
		return &Grant{Volume: vol, Request: r}, nil
	}
	use, at := model.CSIUseOf(nodeID, r), vol.Attachments[nodeID]
	if at != nil && at.State == model.CSIAttached && matches(use, at) {
		return &Grant{Volume: vol, Request: r, Attachment: at}, nil
	}
	if other := elsewhere(vol, nodeID); other != nil && strings.HasPrefix(use.AccessMode, "single-node-") {
		return nil, errdefs.Unavailablef("volume %q is still attached to node %s%s", vol.ID, other.NodeID, lastOf(other))
	}
	return nil, errdefs.Unavailablef("volume %q is not attached to this node yet%s", vol.ID, lastOf(at))
}

// wordsOf is what a node says of an alloc, such as why it cannot end.
func wordsOf(a *model.Allocation) string {
	if a.ClientDescription == "" {
		return ""
	}
	return ": " + a.ClientDescription
}

// lastOf describes the state of an attachment, with its last error.
func lastOf(at *model.CSIAttachment) string {
	switch {
	case at == nil:
		return ""
	case at.LastError == "":
		return fmt.Sprintf(" (%s)", at.State)
	}
	return fmt.Sprintf(" (%s): %s; next try at %s", at.State, at.LastError, time.Unix(0, at.NextTry).UTC().Format(time.RFC3339))
}

// volumeKey is the key by which the volume that an alloc asks for is watched.
func volumeKey(v *state.View, allocID, name string) state.Key {
	key := state.Key{Table: state.TableCSIVolumes}
	if a := v.AllocByID(allocID); a != nil {
		if tg := groupOf(v, a); tg != nil && tg.Volumes[name].IsCSI() {
			key.Value = state.JobKey(a.Namespace, tg.Volumes[name].VolumeName(a.Index()))
		}
	}
	return key
}
