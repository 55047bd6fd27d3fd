// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
)

// These tests hold the scores that a placement is explained with against the
// formulas that operators find in the reference's documents.

// bed is nodes of 1000 MHz and 1000 MB and one job of one group.
type bed struct {
	view *memView
	job  *model.Job
	ids  counter
}

func newBed(count int, metas ...string) *bed {
	b := &bed{view: newMemView()}
	for i, m := range metas {
		id := fmt.Sprint("n", i+1)
		b.view.nodes[id] = parseNode(id, map[string]string{"cpu": "1000", "mem": "1000", "meta.k": m})
	}
	b.job = &model.Job{ID: "j", Name: "j", Namespace: "default", Type: "service", Priority: 50, NodePool: "default", Datacenters: []string{"*"},
		TaskGroups: []*model.TaskGroup{{Name: "g", Count: count, EphemeralDisk: &model.EphemeralDisk{}, Tasks: []*model.Task{
			{Name: "t", Driver: "raw_exec", Resources: &model.Resources{CPU: 100, MemoryMB: 100}}}}}}
	b.view.jobs["j"] = []*model.Job{b.job}
	return b
}

// place schedules and returns the score of each placement by alloc name.
func (b *bed) place(t *testing.T) map[string]*model.NodeScoreMeta {
	t.Helper()
	e := &model.Evaluation{ID: b.ids.NewID(), Namespace: "default", JobID: "j", Type: "service", Priority: 50, Status: "pending"}
	o := schedule.Process(b.view, e, time.Unix(1_700_000_000, 0), &b.ids)
	out := map[string]*model.NodeScoreMeta{}
	for _, a := range o.Plan.Place {
		out[a.Name] = a.Metrics.ScoreMetaData[0]
	}
	b.view.apply(o.Plan)
	if len(out) == 0 {
		t.Fatalf("nothing was placed: %+v", o.FailedTGAllocs)
	}
	return out
}

func expect(t *testing.T, s *model.NodeScoreMeta, part string, want float64) {
	t.Helper()
	got, ok := s.Scores[part]
	if !ok || math.Abs(got-want) > 1e-9 {
		t.Errorf("%s on %s is %v, not %v (all: %v)", part, s.NodeID, got, want, s.Scores)
	}
}

// binpack is the score of a node that is filled to these shares: 0 empty, 1 full.
func binpack(cpu, mem float64) float64 {
	return (20 - math.Pow(10, 1-cpu) - math.Pow(10, 1-mem)) / 18
}

func TestBinpackAndAntiAffinityFollowTheirFormulas(t *testing.T) {
	got := newBed(3, "a").place(t)
	for i := range 3 {
		s := got[fmt.Sprintf("j.g[%d]", i)]
		share := float64(i+1) / 10
		expect(t, s, "binpack", binpack(share, share))
		collisions := 0.0
		if i > 0 {
			collisions = -float64(i+1) / 3 // -(collisions + 1) / count
		}
		expect(t, s, "job-anti-affinity", collisions)
		want := binpack(share, share)
		if i > 0 {
			want = (want + collisions) / 2 // the mean of the parts that say something
		}
		if math.Abs(s.NormScore-want) > 1e-9 {
			t.Errorf("placement %d has final score %v, not %v", i, s.NormScore, want)
		}
	}
}

func TestAffinityIsTheWeightedShareOfWhatTheNodeMeets(t *testing.T) {
	b := newBed(1, "a")
	b.job.Affinities = []*model.Affinity{{LTarget: "${meta.k}", Operand: "=", RTarget: "a", Weight: 100}}
	b.job.TaskGroups[0].Affinities = []*model.Affinity{
		{LTarget: "${meta.k}", Operand: "=", RTarget: "b", Weight: 60}, // not met: counts in the divisor only
		{LTarget: "${attr.kernel.name}", Operand: "regexp", RTarget: "^lin", Weight: -40},
	}
	b.job.TaskGroups[0].Tasks[0].Affinities = []*model.Affinity{{LTarget: "${node.datacenter}", Operand: "=", RTarget: "dc1", Weight: 50}}
	expect(t, b.place(t)["j.g[0]"], "node-affinity", (100.0-40+50)/(100+60+40+50))
}

func TestAnAntiAffinityAvoidsANodeButDoesNotForbidIt(t *testing.T) {
	b := newBed(1, "a", "b")
	b.job.Affinities = []*model.Affinity{{LTarget: "${meta.k}", Operand: "=", RTarget: "a", Weight: -100}}
	if s := b.place(t)["j.g[0]"]; s.NodeID != "n2" {
		t.Errorf("placed on %s", s.NodeID)
	}
	b = newBed(1, "a")
	b.job.Affinities = []*model.Affinity{{LTarget: "${meta.k}", Operand: "=", RTarget: "a", Weight: -100}}
	expect(t, b.place(t)["j.g[0]"], "node-affinity", -1)
}

func TestSpreadWithTargetsFollowsItsFormula(t *testing.T) {
	b := newBed(10, "a", "b")
	b.job.Spreads = []*model.Spread{{Attribute: "${meta.k}", Weight: 100, SpreadTarget: []*model.SpreadTarget{{Value: "a", Percent: 70}, {Value: "b", Percent: 30}}}}
	got := b.place(t)
	placed := map[string]int{}
	for _, s := range got {
		placed[s.NodeID]++
	}
	if placed["n1"] != 7 || placed["n2"] != 3 {
		t.Fatalf("70 %% and 30 %% of 10 were placed as %v", placed)
	}
	first := got["j.g[0]"] // desired 7, one with this placement: (7 - 1) / 7
	expect(t, first, "allocation-spread", 6.0/7)
}

func TestSpreadWeightsShareTheBoost(t *testing.T) {
	b := newBed(4, "a")
	b.job.Spreads = []*model.Spread{{Attribute: "${meta.k}", Weight: 50, SpreadTarget: []*model.SpreadTarget{{Value: "a", Percent: 100}}}}
	b.job.TaskGroups[0].Spreads = []*model.Spread{{Attribute: "${node.datacenter}", Weight: 100, SpreadTarget: []*model.SpreadTarget{{Value: "dc1", Percent: 50}}}}
	// meta: desired 4, used 1; datacenter: desired 2, used 1; weights 1/3 and 2/3.
	expect(t, b.place(t)["j.g[0]"], "allocation-spread", (4.0-1)/4/3+(2.0-1)/2*2/3)
}

func TestAValueBesideTheTargetsSharesWhatTheyLeave(t *testing.T) {
	b := newBed(10, "a", "b", "c")
	b.job.Spreads = []*model.Spread{{Attribute: "${meta.k}", Weight: 100, SpreadTarget: []*model.SpreadTarget{{Value: "a", Percent: 60}}}}
	placed := map[string]int{}
	for _, s := range b.place(t) {
		placed[s.NodeID]++
	}
	if placed["n1"] != 6 || placed["n2"] != 2 || placed["n3"] != 2 {
		t.Errorf("placed as %v", placed)
	}
}

func TestEvenSpreadWithoutTargetsIsEven(t *testing.T) {
	b := newBed(9, "a", "a", "b", "c")
	b.job.Spreads = []*model.Spread{{Attribute: "${meta.k}", Weight: 50}}
	placed := map[string]int{}
	for _, s := range b.place(t) {
		placed[b.view.nodes[s.NodeID].Meta["k"]]++
	}
	if placed["a"] != 3 || placed["b"] != 3 || placed["c"] != 3 {
		t.Errorf("placed as %v", placed)
	}
}

func TestANodeOnWhichTheAllocFailedGetsThePenalty(t *testing.T) {
	b := newBed(1, "a")
	b.job.TaskGroups[0].ReschedulePolicy = &model.ReschedulePolicy{Unlimited: true, Delay: 0, DelayFunction: "constant"}
	b.place(t)
	for id, a := range b.view.allocs {
		c := a.Copy()
		c.ClientStatus, c.ModifyTime = model.AllocClientStatusFailed, time.Unix(1_600_000_000, 0).UnixNano()
		b.view.allocs[id] = c
	}
	got := b.place(t)["j.g[0]"]
	expect(t, got, "node-reschedule-penalty", -1)
	if want := (binpack(.1, .1) - 1) / 2; math.Abs(got.NormScore-want) > 1e-9 {
		t.Errorf("the final score is %v, not %v", got.NormScore, want)
	}
}

func TestTheSpreadAlgorithmPrefersEmptyNodes(t *testing.T) {
	b := newBed(1, "a")
	b.view.config.SchedulerAlgorithm = model.SchedulerAlgorithmSpread
	expect(t, b.place(t)["j.g[0]"], "binpack", (math.Pow(10, .9)*2-2)/18)
}
