// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

func TestANewEvaluationIsPendingAndOfItsJob(t *testing.T) {
	now := time.Unix(100, 5)
	job := &model.Job{Namespace: "ns", ID: "j", Type: model.JobTypeBatch, Priority: 70, JobModifyIndex: 9}
	e := model.NewEvaluation("e", model.EvalTriggerScaling, job, now)
	if e.ID != "e" || e.Namespace != "ns" || e.JobID != "j" || e.Type != job.Type || e.Priority != 70 || e.TriggeredBy != model.EvalTriggerScaling ||
		!e.ShouldEnqueue() || e.CreateTime != now.UnixNano() || e.ModifyTime != now.UnixNano() {
		t.Errorf("%+v", e)
	}
	e.JobModifyIndex, e.DeploymentID = 9, "d"
	later := now.Add(time.Second)
	next := e.Next("f", model.EvalTriggerFailedFollowUp, later)
	if next.ID != "f" || next.PreviousEval != "e" || next.JobModifyIndex != 9 || next.Namespace != "ns" || next.JobID != "j" || next.Type != job.Type ||
		next.Priority != 70 || next.CreateTime != later.UnixNano() || !next.ShouldEnqueue() || next.DeploymentID != "" {
		t.Errorf("%+v", next)
	}
}
