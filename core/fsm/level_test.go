// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

func encode(t *testing.T, c fsm.Command) []byte {
	t.Helper()
	data, err := fsm.Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// older returns a state machine of the release before, with a state.
func older(t *testing.T) *fsm.FSM {
	t.Helper()
	f := fsm.NewAt(fsm.Level-1, state.New(), hclog.NewNullLogger())
	mustApply(t, f, &fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	mustApply(t, f, &fsm.UpsertJob{Job: testJob("web", 1)})
	return f
}

func TestTheLevelOfTheClusterOnlyBecomesHigher(t *testing.T) {
	f := newFSM()
	if _, got := apply(t, f, &fsm.RaiseLevel{Level: 2}); got == nil {
		t.Error("a cluster without a first leader has a level")
	}
	mustApply(t, f, &fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	if got := f.Store().View().Level(); got != 1 {
		t.Fatalf("a new cluster has level %d", got)
	}
	mustApply(t, f, &fsm.RaiseLevel{Level: 2, Release: "v2"})
	mustApply(t, f, &fsm.RaiseLevel{Level: 1, Release: "v1"})
	mustApply(t, f, &fsm.BeginTerm{ClusterID: "c", TermID: "u"}) // the next leader
	v := f.Store().View()
	if v.Level() != 2 || v.Cluster().Release != "v2" || v.Cluster().ID != "c" {
		t.Errorf("%+v", v.Cluster())
	}
	if _, got := apply(t, f, &fsm.RaiseLevel{Level: 256}); got == nil {
		t.Error("a level that no entry can name was taken")
	}
}

func TestCommandsOfTheFirstLevelKeepTheFormThatEveryReleaseReads(t *testing.T) {
	for _, c := range []fsm.Command{&fsm.BeginTerm{ClusterID: "c", TermID: "t"}, &fsm.Batch{Commands: []fsm.Command{&fsm.DeleteNamespaces{}}}} {
		if data := encode(t, c); data[0] != 1 || fsm.Needs(data) != 1 {
			t.Errorf("%T begins with %d and needs level %d", c, data[0], fsm.Needs(data))
		}
	}
	if snap := snapshotOf(t, older(t)); !bytes.HasPrefix(snap, []byte("DROVERS\x01")) {
		t.Errorf("the snapshot of a cluster of level 1 begins with %q", snap[:8])
	}
}

// Servers of the first release would store the node without them, and differ from the
// others from then on.
func TestAttributesAndPlacesOfSingleDevicesNeedTheSecondLevel(t *testing.T) {
	one := 1
	with := func(d *model.NodeDevice) *model.Node {
		return &model.Node{ID: "n", NodeResources: &model.NodeResources{Devices: []*model.NodeDeviceResource{{Instances: []*model.NodeDevice{d}}}}}
	}
	for want, nodes := range map[int][]*model.Node{
		1: {{ID: "n"}, with(&model.NodeDevice{ID: "d", Locality: &model.NodeDeviceLocality{PciBusID: "0000:3b:00.0"}})},
		2: {
			with(&model.NodeDevice{Attributes: map[string]*model.Attribute{"link": {IntVal: new(int64)}}}),
			with(&model.NodeDevice{Locality: &model.NodeDeviceLocality{PciBusID: "0000:3b:00.0", NUMANode: &one}}),
		},
	} {
		for _, n := range nodes {
			if got := fsm.Needs(encode(t, &fsm.RegisterNode{Node: n})); got != want {
				t.Errorf("%+v needs level %d, want %d", n.NodeResources, got, want)
			}
			plain := n.AtLevel1()
			if got := fsm.Needs(encode(t, &fsm.RegisterNode{Node: plain})); got != 1 {
				t.Errorf("what servers of level 1 store of %+v needs level %d", n.NodeResources, got)
			}
			if want == 2 && (!n.BeyondLevel1() || n.NodeResources == plain.NodeResources) {
				t.Error("the node itself has changed")
			}
		}
	}
}

func TestABatchNeedsTheLevelOfItsNewestCommand(t *testing.T) {
	data := encode(t, &fsm.Batch{Commands: []fsm.Command{&fsm.DeleteNamespaces{}, &fsm.RaiseLevel{Level: 2}}})
	if fsm.Needs(data) != 2 {
		t.Errorf("it needs level %d", fsm.Needs(data))
	}
	if alone := encode(t, &fsm.RaiseLevel{Level: 2}); fsm.Needs(alone) != 1 {
		t.Errorf("the command that raises the level needs level %d before", fsm.Needs(alone))
	}
}

func TestAServerOfAnOlderReleaseStopsAtTheFirstEntryOfANewerLevel(t *testing.T) {
	f := older(t)
	before := hashOf(t, f)
	index := f.Store().View().Index()
	entries := []fsm.Entry{
		{Index: index + 1, Data: encode(t, &fsm.RaiseLevel{Level: fsm.Level, Release: "v9.9"})},
		{Index: index + 2, Data: encode(t, &fsm.UpsertJob{Job: testJob("later", 1)})},
	}
	for i, got := range f.ApplyBatch(entries) {
		err, _ := got.(error)
		var newer *fsm.LevelError
		if !errors.As(err, &newer) || newer.Needs != fsm.Level || !errdefs.IsFailedPrecondition(err) ||
			!strings.Contains(err.Error(), "run release v9.9 or a newer one here") {
			t.Errorf("entry %d: %v", i, got)
		}
	}
	if v := f.Store().View(); v.Index() != index || v.JobByID("default", "later") != nil {
		t.Errorf("something was applied: index %d", v.Index())
	}
	// A restart of the old release stops there again; the new one goes on.
	restarted := older(t)
	if hashOf(t, restarted) != before {
		t.Fatal("the state before is not the same")
	}
	if _, ok := restarted.ApplyBatch(entries)[1].(error); !ok {
		t.Error("the entry was skipped after a restart")
	}
	upgraded := newFSM()
	mustApply(t, upgraded, &fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	mustApply(t, upgraded, &fsm.UpsertJob{Job: testJob("web", 1)})
	for _, got := range upgraded.ApplyBatch(entries) {
		if refused(got) {
			t.Error(got)
		}
	}
	if upgraded.Store().View().JobByID("default", "later") == nil {
		t.Error("the upgraded server did not go on")
	}
}

func TestASnapshotOfANewerLevelChangesNothing(t *testing.T) {
	newer := newFSM()
	mustApply(t, newer, &fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	mustApply(t, newer, &fsm.RaiseLevel{Level: fsm.Level, Release: "v9.9"})
	snap := snapshotOf(t, newer)
	f := older(t)
	before := hashOf(t, f)
	err := f.Restore(bytes.NewReader(snap))
	var unread *fsm.UnreadableError
	if !errors.As(err, &unread) || !unread.Snapshot || unread.Index != newer.Store().View().Index() || !strings.Contains(err.Error(), "run release v9.9") {
		t.Fatalf("got %v", err)
	}
	if f.Store().View().JobByID("default", "web") == nil {
		t.Error("the state is lost")
	}
	if _, err := f.Snapshot(); err == nil {
		t.Error("it takes a snapshot of a state that is not the newest")
	}
	if err := newFSM().Restore(bytes.NewReader(snap)); err != nil {
		t.Errorf("a server of the newer level: %v", err)
	}
	again := older(t)
	if hashOf(t, again) != before {
		t.Error("the state changed")
	}
	future := append([]byte("DROVERS\x09"), snap[8:]...)
	if err := newFSM().Restore(bytes.NewReader(future)); !errors.As(err, &unread) {
		t.Errorf("an unknown format: %v", err)
	}
	if err := fsm.Load(1, state.New(), bytes.NewReader(snap)); !errdefs.IsFailedPrecondition(err) || strings.Contains(err.Error(), "applied") {
		t.Errorf("looked at by an older release: %v", err)
	}
	for what, bad := range map[string][]byte{"empty": nil, "of another program": bytes.Repeat([]byte("\x81"), 400), "of a newer format": future} {
		if err := fsm.CheckStart(bytes.NewReader(bad)); err == nil || strings.Contains(err.Error(), "capability") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := fsm.CheckStart(bytes.NewReader(snap[:min(len(snap), fsm.StartBytes)])); err != nil {
		t.Error(err)
	}
	for cut := range 30 {
		if err := newFSM().Restore(bytes.NewReader(snap[:cut])); err == nil {
			t.Errorf("%d bytes are a snapshot", cut)
		}
	}
}
