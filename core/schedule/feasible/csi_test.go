// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible_test

import (
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
)

// shelves is a state with one volume of type csi.
type shelves struct {
	view
	vol     *model.CSIVolume
	holders []*model.Allocation
	twin    *model.CSIVolume    // the same volume of the storage system
	twins   []*model.Allocation // its holders
	jobs    map[string]*model.Job
}

func (s shelves) CSIVolumeByID(_, id string) *model.CSIVolume {
	if s.vol != nil && s.vol.ID == id {
		return s.vol
	}
	return nil
}
func (s shelves) CSIVolumeHolders(_, id string) []*model.Allocation {
	if s.twin != nil && s.twin.ID == id {
		return s.twins
	}
	return s.holders
}
func (s shelves) CSIVolumeTwins(*model.CSIVolume) []*model.CSIVolume {
	if s.twin == nil {
		return nil
	}
	return []*model.CSIVolume{s.twin}
}
func (s shelves) JobOf(a *model.Allocation) *model.Job { return s.jobs[a.JobID] }

func csiJob(id, mode string, readOnly bool) *model.Job {
	return &model.Job{ID: id, Namespace: "default", TaskGroups: []*model.TaskGroup{{
		Name: "g", Volumes: map[string]*model.VolumeRequest{"v": {Name: "v", Type: "csi", Source: "db", AccessMode: mode, AttachmentMode: "file-system", ReadOnly: readOnly}},
	}}}
}

func csiNode(id string) *model.Node {
	return &model.Node{ID: id, CSINodePlugins: map[string]*model.CSIInfo{"p": {
		PluginID: "p", Healthy: true, NodeInfo: &model.CSINodeInfo{ID: id, MaxVolumes: 1, AccessibleTopology: &model.CSITopology{Segments: map[string]string{"zone": "a"}}},
	}}}
}

func csiVolume(modes ...string) *model.CSIVolume {
	v := &model.CSIVolume{ID: "db", Namespace: "default", ExternalID: "x", PluginID: "p"}
	for _, m := range modes {
		v.RequestedCapabilities = append(v.RequestedCapabilities, &model.VolumeCapability{AccessMode: m, AttachmentMode: "file-system"})
	}
	return v
}

func TestWhyANodeCannotHaveAVolumeOfTypeCSI(t *testing.T) {
	one := csiJob("one", "single-node-writer", false)
	bad := func(change func(n *model.Node, v *model.CSIVolume)) func() (*model.Node, *model.CSIVolume) {
		return func() (*model.Node, *model.CSIVolume) {
			n, v := csiNode("n1"), csiVolume("single-node-writer")
			change(n, v)
			return n, v
		}
	}
	for want, make := range map[string]func() (*model.Node, *model.CSIVolume){
		"":                                 bad(func(*model.Node, *model.CSIVolume) {}),
		"missing CSI volume(s) db":         bad(func(_ *model.Node, v *model.CSIVolume) { v.ID = "other" }),
		"CSI volume db is being deleted":   bad(func(_ *model.Node, v *model.CSIVolume) { v.State = model.CSIVolumeDeleting }),
		"CSI volume db is not created yet": bad(func(_ *model.Node, v *model.CSIVolume) { v.ExternalID = "" }),
		"CSI plugin p is missing":          bad(func(n *model.Node, _ *model.CSIVolume) { n.CSINodePlugins = nil }),
		"CSI plugin p of the node is the driver b, and CSI volume db is one of the driver a": bad(func(n *model.Node, v *model.CSIVolume) {
			n.CSINodePlugins["p"].Provider, v.Driver = "b", "a"
		}),
		"CSI plugin p is unhealthy": bad(func(n *model.Node, _ *model.CSIVolume) { n.CSINodePlugins["p"].Healthy = false }),
		"CSI volume db does not offer access mode single-node-writer with attachment mode file-system": bad(func(_ *model.Node, v *model.CSIVolume) { v.RequestedCapabilities = nil }),
		"CSI volume db is not accessible from the location of the node": bad(func(_ *model.Node, v *model.CSIVolume) {
			v.Topologies = []*model.CSITopology{nil, {Segments: map[string]string{"zone": "b"}}}
		}),
	} {
		n, v := make()
		s := shelves{vol: v}
		if got := feasible.NewChecker(one, one.TaskGroups[0]).WithVolumes(s).Check(n); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestWhoMayUseAVolumeOfTypeCSITogether(t *testing.T) {
	const writers = "CSI volume db has exhausted its available writer claims"
	for _, c := range []struct {
		held, asked     string
		heldRO, askedRO bool
		sameNode        bool
		want            string
	}{
		{held: "single-node-writer", asked: "single-node-writer", sameNode: true, want: writers},
		{held: "single-node-writer", asked: "single-node-writer", askedRO: true, sameNode: true},
		{held: "single-node-writer", asked: "single-node-writer", askedRO: true, want: "CSI volume db is in use on another node"},
		{held: "single-node-multi-writer", asked: "single-node-multi-writer", sameNode: true},
		{held: "multi-node-multi-writer", asked: "multi-node-multi-writer"},
		{held: "multi-node-single-writer", asked: "multi-node-single-writer", want: writers},
		{held: "multi-node-single-writer", asked: "multi-node-single-writer", askedRO: true},
		{held: "multi-node-reader-only", heldRO: true, asked: "multi-node-reader-only", askedRO: true},
		{held: "multi-node-reader-only", heldRO: true, asked: "multi-node-multi-writer", want: "CSI volume db is in use with access mode multi-node-reader-only and attachment mode file-system"},
	} {
		holder, asks := csiJob("holder", c.held, c.heldRO), csiJob("asks", c.asked, c.askedRO)
		on := "n2"
		if c.sameNode {
			on = "n1"
		}
		s := shelves{vol: csiVolume(model.CSIAccessModes...), jobs: map[string]*model.Job{"holder": holder, "asks": asks}, holders: []*model.Allocation{{ID: "h", Namespace: "default", JobID: "holder", TaskGroup: "g", NodeID: on}}}
		if got := feasible.NewChecker(asks, asks.TaskGroups[0]).WithVolumes(s).Check(csiNode("n1")); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
		// The alloc that it replaces gives the volume up.
		if got := feasible.NewChecker(asks, asks.TaskGroups[0]).WithVolumes(s).MayAttach(csiNode("n1"), "asks.g[0]", "h", nil, nil); got != "" {
			t.Errorf("%+v: in place of the holder: %q", c, got)
		}
		// The applier decides as the scheduler does, also about allocs of one plan.
		place := []*model.Allocation{{ID: "new", Namespace: "default", JobID: "asks", TaskGroup: "g", NodeID: "n1"}}
		if got := feasible.Fits(s, csiNode("n1"), feasible.Change{Place: place}); got != c.want {
			t.Errorf("%+v: the applier: %q", c, got)
		}
		elsewhere := s.holders
		s.holders = nil
		if got := feasible.Fits(s, csiNode("n1"), feasible.Change{Place: place, Elsewhere: func() []*model.Allocation { return elsewhere }}); got != c.want {
			t.Errorf("%+v: in one plan: %q", c, got)
		}
	}
}

func TestAllocsElsewhereAreAskedForOnlyBecauseOfCSIVolumes(t *testing.T) {
	s := shelves{jobs: map[string]*model.Job{"web": {ID: "web", TaskGroups: []*model.TaskGroup{{Name: "g"}}}}}
	place := []*model.Allocation{{ID: "new", Namespace: "default", JobID: "web", TaskGroup: "g", NodeID: "n1"}}
	why := feasible.Fits(s, csiNode("n1"), feasible.Change{Place: place, Elsewhere: func() []*model.Allocation {
		t.Error("a plan for many nodes costs the square of their number")
		return nil
	}})
	if why != "" {
		t.Error(why)
	}
}

func TestOneVolumeOfAStorageSystemHasOneWriterUnderAllItsIDs(t *testing.T) {
	const same = "CSI volume db is volume archive of namespace other in the storage system, which "
	for _, c := range []struct {
		held, asked string
		sameNode    bool
		want        string
	}{
		{held: "single-node-writer", asked: "single-node-writer", sameNode: true, want: same + "has exhausted its available writer claims"},
		{held: "multi-node-multi-writer", asked: "multi-node-multi-writer"},
		{held: "multi-node-multi-writer", asked: "single-node-writer", want: same + "has exhausted its available writer claims"},
		{held: "multi-node-reader-only", asked: "multi-node-multi-writer"},
		{held: "single-node-reader-only", asked: "multi-node-multi-writer", want: same + "is in use on another node"},
	} {
		holder, asks := csiJob("holder", c.held, false), csiJob("asks", c.asked, false)
		holder.Namespace = "other"
		holder.TaskGroups[0].Volumes["v"].Source = "archive"
		holder.TaskGroups[0].Volumes["v"].ReadOnly = c.held == "single-node-reader-only"
		on := "n2"
		if c.sameNode {
			on = "n1"
		}
		twin := csiVolume(model.CSIAccessModes...)
		twin.ID, twin.Namespace = "archive", "other"
		s := shelves{
			vol: csiVolume(model.CSIAccessModes...), twin: twin, jobs: map[string]*model.Job{"holder": holder, "asks": asks},
			twins: []*model.Allocation{{ID: "h", Namespace: "other", JobID: "holder", TaskGroup: "g", NodeID: on}},
		}
		if got := feasible.NewChecker(asks, asks.TaskGroups[0]).WithVolumes(s).Check(csiNode("n1")); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}
