// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
)

// withVolume is a state with the volume "v" of the name "data" on the node "n1".
func withVolume(t *testing.T) *fsm.FSM {
	f := newFSM()
	mustApply(t, f, &fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	mustApply(t, f, &fsm.RaiseLevel{Level: fsm.Level})
	mustApply(t, f, &fsm.RegisterNode{Node: &model.Node{ID: "n1", Status: model.NodeStatusReady, HostVolumes: map[string]*model.HostVolumeConfig{"static": {Name: "static"}}}})
	mustApply(t, f, &fsm.PutHostVolume{Volume: &model.HostVolume{ID: "v", Name: "data", Namespace: "default", NodeID: "n1", ModifyTime: 5}, New: true})
	return f
}

func TestAHostVolumeHasItsNameAloneOnItsNode(t *testing.T) {
	f := withVolume(t)
	put := func(id, name, node, ns string, fresh bool) string {
		_, answer := apply(t, f, &fsm.PutHostVolume{Volume: &model.HostVolume{ID: id, Name: name, Namespace: ns, NodeID: node}, New: fresh})
		if err, failed := answer.(error); failed {
			return err.Error()
		}
		return ""
	}
	for want, got := range map[string]string{
		`host volume "v" exists`:          put("v", "other", "n1", "default", true),
		"has a volume with the name":      put("w", "data", "n1", "default", true),
		`name "static"`:                   put("w", "static", "n1", "default", true),
		`node "n9" does not exist`:        put("w", "x", "n9", "default", true),
		"nonexistent namespace":           put("w", "x", "n1", "nowhere", true),
		"was deleted meanwhile":           put("w", "x", "n1", "default", false),
		"cannot change; create another v": put("v", "x", "n1", "default", false),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if n := len(f.Store().View().HostVolumesByNode("n1")); n != 1 {
		t.Errorf("the node has %d volumes", n)
	}
}

func TestAHostVolumeFollowsItsNode(t *testing.T) {
	f := withVolume(t)
	state := func(want string) {
		t.Helper()
		if v := f.Store().View().HostVolumeByID("v"); v.State != want {
			t.Errorf("the volume is %s, want %s", v.State, want)
		}
	}
	offering := func() *model.Node {
		return &model.Node{ID: "n1", Status: model.NodeStatusReady, HostVolumes: map[string]*model.HostVolumeConfig{"data": {Name: "data", ID: "v", Path: "/srv/v"}}}
	}
	state("pending")
	mustApply(t, f, &fsm.RegisterNode{Node: offering()})
	state("ready")
	if v := f.Store().View().HostVolumeByID("v"); v.HostPath != "/srv/v" {
		t.Errorf("the path that the servers had lost is %q", v.HostPath)
	}
	mustApply(t, f, &fsm.UpdateNodeStatus{NodeID: "n1", Status: model.NodeStatusDown})
	state("unavailable")
	mustApply(t, f, &fsm.UpdateNodeStatus{NodeID: "n1", Status: model.NodeStatusReady})
	state("ready")
	before := f.Store().View().NodeByID("n1").ModifyIndex
	mustApply(t, f, &fsm.MarkHostVolume{ID: "v", Deleting: true})
	state("deleting")
	if f.Store().View().NodeByID("n1").ModifyIndex == before {
		t.Error("plans that were verified before the removal began are still applied")
	}
	mustApply(t, f, &fsm.PutHostVolume{Volume: &model.HostVolume{ID: "v", Name: "data", Namespace: "default", NodeID: "n1"}})
	state("deleting")
	mustApply(t, f, &fsm.MarkHostVolume{ID: "v"})
	state("ready")
	mustApply(t, f, &fsm.DeregisterNodes{IDs: []string{"n1"}})
	state("unavailable")
	mustApply(t, f, &fsm.RegisterNode{Node: offering()})
	state("ready")
	mustApply(t, f, &fsm.DeleteHostVolume{ID: "v"})
	if _, answer := apply(t, f, &fsm.DeleteHostVolume{ID: "v"}); !refused(answer) {
		t.Error("a volume was deleted twice")
	}
}

func TestANamespaceWithVolumesStays(t *testing.T) {
	f := withVolume(t)
	mustApply(t, f, &fsm.UpsertNamespaces{Namespaces: []*model.Namespace{{Name: "prod"}}})
	mustApply(t, f, &fsm.PutHostVolume{Volume: &model.HostVolume{ID: "w", Name: "more", Namespace: "prod", NodeID: "n1"}, New: true})
	if _, answer := apply(t, f, &fsm.DeleteNamespaces{Names: []string{"prod"}}); !refused(answer) {
		t.Error("the namespace of a volume was deleted")
	}
	mustApply(t, f, &fsm.DeleteHostVolume{ID: "w"})
	mustApply(t, f, &fsm.DeleteNamespaces{Names: []string{"prod"}})
}

// Only the removal of a node that is down for good takes its volumes along, and only if its
// operator has said so.
func TestVolumesAreForgottenWithANodeThatSaysSo(t *testing.T) {
	for _, c := range []struct{ says, collected, kept bool }{{true, true, false}, {true, false, true}, {false, true, true}} {
		f := withVolume(t)
		mustApply(t, f, &fsm.RegisterNode{Node: &model.Node{ID: "n1", Status: model.NodeStatusReady, GCVolumesOnNodeGC: c.says}})
		mustApply(t, f, &fsm.UpdateNodeStatus{NodeID: "n1", Status: model.NodeStatusDown})
		mustApply(t, f, &fsm.DeregisterNodes{IDs: []string{"n1"}, OnlyDown: c.collected})
		if got := f.Store().View().HostVolumeByID("v") != nil; got != c.kept {
			t.Errorf("%+v: the volume is there: %v", c, got)
		}
	}
}
