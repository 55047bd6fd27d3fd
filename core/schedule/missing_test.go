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
