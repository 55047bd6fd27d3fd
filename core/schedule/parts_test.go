// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule_test

import (
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

func TestAnotherEvaluationPlacesWhatIsTooMuchForOne(t *testing.T) {
	s := playOn(t, "node n1", "job web")
	job, node := s.v.JobByID("default", "web"), s.v.nodes["n1"]
	job.TaskGroups[0].Count = reconcile.MaxPlacements + 7
	node.NodeResources.Cpu.CpuShares, node.NodeResources.Memory.MemoryMB, node.NodeResources.Disk.DiskMB = 1<<40, 1<<40, 1<<40
	eval := &model.Evaluation{ID: "e", Namespace: "default", JobID: "web", Type: job.Type, Priority: 50, Status: model.EvalStatusPending}
	out := schedule.Process(s.v, eval, s.now, &s.ids)
	if len(out.Plan.Place) != reconcile.MaxPlacements || len(out.FollowUps) != 1 || out.Blocked != nil || out.QueuedAllocations[job.TaskGroups[0].Name] != 7 {
		t.Fatalf("%d placed, %d follow, blocked %v, queued %v", len(out.Plan.Place), len(out.FollowUps), out.Blocked, out.QueuedAllocations)
	}
	if f := out.FollowUps[0]; f.Status != model.EvalStatusPending || f.TriggeredBy != model.EvalTriggerQueuedAllocs || !f.WaitUntil.IsZero() || out.Eval.NextEval != f.ID {
		t.Errorf("what follows is %+v", f)
	}
	job.TaskGroups[0].Count *= 2
	node.NodeResources.Cpu.CpuShares = 4000
	out = schedule.Process(s.v, eval, s.now, &s.ids)
	if len(out.FollowUps) != 0 || out.Blocked == nil {
		t.Errorf("without room %d follow, blocked %v: it waits for room", len(out.FollowUps), out.Blocked)
	}
}
