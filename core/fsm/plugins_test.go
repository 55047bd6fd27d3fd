// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func pluginAt(version string) *model.PluginSpec {
	return &model.PluginSpec{
		Name: "p", MaxParallel: 1, HealthyDeadline: time.Minute,
		Release: &model.PluginRelease{Version: version, Digest: "sha256:" + version, Source: "/p", Config: map[string]any{"n": 1}},
	}
}

// registry applies commands and shows the plugin that they are about.
type registry struct {
	t *testing.T
	f *fsm.FSM
}

func (r registry) plugin() *model.PluginSpec { return r.f.Store().View().PluginSpecByName("p") }

func (r registry) register(version string) *model.PluginSpec {
	r.t.Helper()
	mustApply(r.t, r.f, &fsm.RegisterPlugin{Spec: pluginAt(version)})
	return r.plugin()
}

// ends ends the roll-out.
func (r registry) ends(status string) {
	r.t.Helper()
	mustApply(r.t, r.f, &fsm.StepPluginRollout{Name: "p", Index: r.plugin().ModifyIndex, Rollout: &model.PluginRollout{Status: status}})
}

func (r registry) steer(act string) {
	r.t.Helper()
	mustApply(r.t, r.f, &fsm.SteerPluginRollout{Name: "p", Act: act})
}

// want compares release, previous release and status.
func (r registry) want(release, previous, status string) {
	r.t.Helper()
	p := r.plugin()
	before := ""
	if p.Previous != nil {
		before = p.Previous.Version
	}
	if p.Release.Version != release || before != previous || p.Rollout.Status != status {
		r.t.Fatalf("the plugin is at %s after %q, %s; want %s after %q, %s", p.Release.Version, before, p.Rollout.Status, release, previous, status)
	}
}

func TestARegisteredReleaseIsRolledOutAndTheOneBeforeIsKept(t *testing.T) {
	r := registry{t, newFSM()}
	one := r.register("1")
	r.want("1", "", model.PluginRolloutRunning)
	r.ends(model.PluginRolloutComplete)
	two := r.register("2")
	r.want("2", "1", model.PluginRolloutRunning)
	if two.Release.Revision <= one.Release.Revision || two.CreateIndex != one.CreateIndex {
		t.Fatalf("revisions %d and %d, created at %d and %d", one.Release.Revision, two.Release.Revision, one.CreateIndex, two.CreateIndex)
	}
	r.register("3") // 2 never was on all nodes: it is none to go back to
	r.want("3", "1", model.PluginRolloutRunning)
}

func TestTheSameReleaseAgainChangesNothingUnlessItFailed(t *testing.T) {
	r := registry{t, newFSM()}
	first := r.register("1").Release.Revision
	r.ends(model.PluginRolloutComplete)
	if p := r.register("1"); p.Release.Revision != first || p.Rollout.Status != model.PluginRolloutComplete {
		t.Fatalf("registering it again made revision %d, %s", p.Release.Revision, p.Rollout.Status)
	}
	r.register("2")
	r.ends(model.PluginRolloutFailed)
	failed := r.plugin().Release.Revision
	if p := r.register("2"); p.Release.Revision == failed || p.Rollout.Status != model.PluginRolloutRunning {
		t.Fatalf("after a failure registering it again made revision %d, %s", p.Release.Revision, p.Rollout.Status)
	}
	r.want("2", "1", model.PluginRolloutRunning)
}

func TestOtherNodesAreAnotherRolloutOfTheSameRelease(t *testing.T) {
	r := registry{t, newFSM()}
	first := r.register("1").Release.Revision
	r.ends(model.PluginRolloutComplete)
	wider := pluginAt("1")
	wider.NodePool = "gpu"
	mustApply(t, r.f, &fsm.RegisterPlugin{Spec: wider})
	if p := r.plugin(); p.Release.Revision != first || p.Rollout.Status != model.PluginRolloutRunning || p.NodePool != "gpu" {
		t.Fatalf("the plugin is %+v %+v", p, p.Rollout)
	}
}

func TestAnOperatorSteersARollout(t *testing.T) {
	r := registry{t, newFSM()}
	r.register("1")
	r.ends(model.PluginRolloutComplete)
	r.register("2")
	r.steer(model.PluginRolloutPause)
	r.want("2", "1", model.PluginRolloutPaused)
	r.steer(model.PluginRolloutResume)
	r.want("2", "1", model.PluginRolloutRunning)
	r.ends(model.PluginRolloutFailed)
	failed := r.plugin().Release.Revision
	r.steer(model.PluginRolloutResume)
	if r.plugin().Release.Revision == failed {
		t.Error("nodes that failed are not asked again")
	}
	r.steer(model.PluginRolloutRevert)
	r.want("1", "1", model.PluginRolloutRunning)
	if g := r.plugin().Rollout.GivenUp; g == nil || g.Version != "2" {
		t.Errorf("what was given up is %+v", g)
	}
	for act, class := range map[string]errdefs.Class{
		model.PluginRolloutRevert: errdefs.FailedPrecondition, model.PluginRolloutResume: errdefs.FailedPrecondition, "dance": errdefs.InvalidArgument,
	} {
		if _, answer := apply(t, r.f, &fsm.SteerPluginRollout{Name: "p", Act: act}); errdefs.ClassOf(asError(answer)) != class {
			t.Errorf("%s answers %v, want class %s", act, answer, class)
		}
	}
}

func asError(answer any) error {
	err, _ := answer.(error)
	return err
}

func TestAStepThatWasDecidedOnAnOlderStateIsDropped(t *testing.T) {
	r := registry{t, newFSM()}
	stale := r.register("1").ModifyIndex
	r.steer(model.PluginRolloutPause)
	mustApply(t, r.f, &fsm.StepPluginRollout{Name: "p", Index: stale, Rollout: &model.PluginRollout{Status: model.PluginRolloutComplete}})
	r.want("1", "", model.PluginRolloutPaused)
	mustApply(t, r.f, &fsm.StepPluginRollout{Name: "gone", Index: stale, Revert: "why"})
}

func TestCheckAndSetOfAPlugin(t *testing.T) {
	r := registry{t, newFSM()}
	index := r.register("1").ModifyIndex
	for _, c := range []fsm.Command{
		&fsm.RegisterPlugin{Spec: pluginAt("2"), CAS: true}, &fsm.RegisterPlugin{Spec: pluginAt("2"), CAS: true, Index: index - 1},
		&fsm.DeletePlugin{Name: "p", CAS: true, Index: index + 1},
	} {
		if _, answer := apply(t, r.f, c); !errdefs.IsConflict(asError(answer)) {
			t.Errorf("%T answers %v", c, answer)
		}
	}
	mustApply(t, r.f, &fsm.DeletePlugin{Name: "p", CAS: true, Index: index})
	if _, answer := apply(t, r.f, &fsm.DeletePlugin{Name: "p"}); !errdefs.IsNotFound(asError(answer)) {
		t.Errorf("a second deletion answers %v", answer)
	}
}

func TestTheRegistryIsBounded(t *testing.T) {
	f := newFSM()
	for i := range 256 {
		spec := pluginAt("1")
		spec.Name = fmt.Sprint("p", i)
		mustApply(t, f, &fsm.RegisterPlugin{Spec: spec})
	}
	if _, answer := apply(t, f, &fsm.RegisterPlugin{Spec: pluginAt("1")}); !errdefs.IsResourceExhausted(asError(answer)) {
		t.Fatalf("one more answers %v", answer)
	}
}
