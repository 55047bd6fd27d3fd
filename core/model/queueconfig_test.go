// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "testing"

func TestANodePoolComesBeforeANamespaceAndThatBeforeTheCluster(t *testing.T) {
	on, off := true, false
	cluster := &SchedulerConfiguration{SchedulerAlgorithm: "binpack", MemoryOversubscriptionEnabled: true, PreemptionConfig: PreemptionConfig{SystemSchedulerEnabled: true, BatchSchedulerEnabled: true}, QueueMaxDepth: 50}
	ns := &Namespace{SchedulerConfiguration: &NamespaceSchedulerConfiguration{
		SchedulerAlgorithm: "spread", MemoryOversubscriptionEnabled: &off, PreemptionConfig: &PreemptionOverride{ServiceSchedulerEnabled: &on, BatchSchedulerEnabled: &off},
		Queue: &QueueConfiguration{Weight: 5, Ordered: &off},
	}}
	pool := &NodePool{SchedulerConfiguration: &NodePoolSchedulerConfiguration{
		SchedulerAlgorithm: "binpack", PreemptionConfig: &PreemptionOverride{ServiceSchedulerEnabled: &off}, Queue: &QueueConfiguration{Weight: 3, Ordered: &on, MaxDepth: 7},
	}}
	if got := SchedulingOf(nil, nil, nil); got != (Scheduling{}) {
		t.Errorf("nothing is set: %+v", got)
	}
	if got, want := SchedulingOf(cluster, nil, ns), (Scheduling{"spread", false, PreemptionConfig{SystemSchedulerEnabled: true, ServiceSchedulerEnabled: true}}); got != want {
		t.Errorf("namespace: %+v, want %+v", got, want)
	}
	if got, want := SchedulingOf(cluster, pool, ns), (Scheduling{"binpack", false, PreemptionConfig{SystemSchedulerEnabled: true}}); got != want {
		t.Errorf("pool: %+v, want %+v", got, want)
	}
	if got, want := LaneRulesOf(cluster, pool, ns), (LaneRules{Weight: 5, PoolWeight: 3, MaxDepth: 7}); got != want {
		t.Errorf("lane: %+v, want %+v", got, want)
	}
	if got, want := LaneRulesOf(cluster, pool, nil), (LaneRules{Weight: 1, PoolWeight: 3, Ordered: true, MaxDepth: 7}); got != want {
		t.Errorf("lane of a pool: %+v, want %+v", got, want)
	}
	if got, want := LaneRulesOf(nil, nil, nil), (LaneRules{Weight: 1, PoolWeight: 1, MaxDepth: DefaultQueueDepth}); got != want {
		t.Errorf("default: %+v, want %+v", got, want)
	}
}
