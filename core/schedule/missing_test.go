// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
)

func TestABlockedEvaluationNamesTheVolumesThatDoNotExistAndNoClasses(t *testing.T) {
	s := &script{v: newMemView(), now: time.Unix(1_700_000_000, 0).UTC()}
	for _, line := range []string{"node n1", "node n2", "job web count=2"} {
		if err := s.line(line); err != nil {
			t.Fatal(err)
		}
	}
	job := s.v.JobByID("default", "web").Copy()
	job.TaskGroups[0].Volumes = map[string]*model.VolumeRequest{"db": {Name: "db", Type: "csi", Source: "nope", AccessMode: model.AccessSingleNodeWriter, AttachmentMode: model.AttachmentFileSystem}}
	s.v.jobs["web"] = []*model.Job{job}
	eval := model.NewEvaluation("e1", model.EvalTriggerJobRegister, job, s.now)
	o := schedule.Process(s.v, eval, s.now, &s.ids)
	if o.Blocked == nil {
		t.Fatal("it is not blocked")
	}
	if got := fmt.Sprint(o.Blocked.MissingNonNodeResources); got != "[csi-volume:default:nope]" {
		t.Errorf("it lacks %s", got)
	}
	if !o.Blocked.EscapedComputedClass || o.Blocked.ClassEligibility != nil {
		t.Errorf("classes that tell nothing: %v, %v", o.Blocked.EscapedComputedClass, o.Blocked.ClassEligibility)
	}

	s.v.csi = map[string]*model.CSIVolume{"nope": {ID: "nope", ExternalID: "x", PluginID: "p"}}
	again := schedule.Process(s.v, o.Blocked, s.now, &s.ids)
	if again.Eval.Status != model.EvalStatusBlocked || len(again.Eval.MissingNonNodeResources) != 0 {
		t.Errorf("the volume exists now: %s, %v", again.Eval.Status, again.Eval.MissingNonNodeResources)
	}
}

// A job that is only planned is not in the state, and its allocs exclude each other all the same.
func TestAPlannedJobsAllocsDoNotShareAWriter(t *testing.T) {
	s := &script{v: newMemView(), now: time.Unix(1_700_000_000, 0).UTC()}
	for _, line := range []string{"node n1", "job web count=2"} {
		if err := s.line(line); err != nil {
			t.Fatal(err)
		}
	}
	capability := &model.VolumeCapability{AccessMode: model.AccessSingleNodeWriter, AttachmentMode: model.AttachmentFileSystem}
	s.v.csi = map[string]*model.CSIVolume{"db": {ID: "db", Namespace: "default", ExternalID: "x", PluginID: "p", RequestedCapabilities: []*model.VolumeCapability{capability}}}
	s.v.nodes["n1"].CSINodePlugins = map[string]*model.CSIInfo{"p": {PluginID: "p", Healthy: true, NodeInfo: &model.CSINodeInfo{}}}
	job := s.v.JobByID("default", "web").Copy()
	job.TaskGroups[0].Volumes = map[string]*model.VolumeRequest{"db": {Name: "db", Type: "csi", Source: "db", AccessMode: capability.AccessMode, AttachmentMode: capability.AttachmentMode}}
	delete(s.v.jobs, "web")
	eval := model.NewEvaluation("e1", model.EvalTriggerJobRegister, job, s.now)
	o := schedule.Process(&schedule.Altered{View: s.v, Job: job}, eval, s.now, &s.ids)
	if len(o.Plan.Place) != 1 || o.Blocked == nil {
		t.Errorf("%d allocs are placed beside a writer that is alone, blocked: %v", len(o.Plan.Place), o.Blocked)
	}
}
