// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/propose"
)

// Tracking says when a node that keeps refusing plans gets no new allocs any more: after
// Threshold plans within Window of which it has refused a part; never if Threshold is 0.
// Plans that were made at the same time for the same room are refused in normal operation,
// so a low threshold takes healthy nodes out of service.
type Tracking struct {
	Threshold int
	Window    time.Duration
}

// MaxThreshold bounds what is remembered of one node.
const MaxThreshold = 10_000

// maxRefusing is how many nodes are remembered.
const maxRefusing = 10_000

// refusals remembers when nodes have refused plans.
type refusals struct {
	Tracking
	mu    sync.Mutex
	times map[string][]time.Time // by node, oldest first, fewer than Threshold
}

// note remembers a refusal, and reports whether the node has now reached the threshold.
// Then its refusals are forgotten.
func (r *refusals) note(node string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	over := func(t time.Time) bool { return now.Sub(t) >= r.Window }
	if r.times == nil || len(r.times) >= maxRefusing && r.times[node] == nil {
		old := r.times
		r.times = map[string][]time.Time{}
		for id, times := range old {
			if !over(times[len(times)-1]) && len(r.times) < maxRefusing/2 {
				r.times[id] = times
			}
		}
	}
	times := append(slices.DeleteFunc(r.times[node], over), now)
	if len(times) >= r.Threshold {
		delete(r.times, node)
		return true
	}
	r.times[node] = times
	return false
}

// Track makes the applier take nodes that keep refusing plans out of service. It must be
// called before Run.
func (a *Applier) Track(t Tracking) {
	t.Threshold = min(t.Threshold, MaxThreshold)
	if t.Threshold > 0 && t.Window > 0 {
		a.refusals = &refusals{Tracking: t}
	}
}

// judge remembers which nodes have refused a part of a plan, and makes those ineligible that
// have done so too often. If that cannot be written, the node is counted anew.
func (a *Applier) judge(ctx context.Context, result *model.PlanResult) {
	if a.refusals == nil || result == nil {
		return
	}
	seen := map[string]bool{}
	for _, refused := range result.Rejections {
		if refused.NodeID == "" || seen[refused.NodeID] {
			continue
		}
		seen[refused.NodeID] = true
		if !a.refusals.note(refused.NodeID, a.now()) {
			continue
		}
		n := a.view().NodeByID(refused.NodeID)
		if n == nil || n.SchedulingEligibility != model.NodeSchedulingEligible {
			continue
		}
		_, _ = propose.Bounded(ctx, a.log, &fsm.UpdateNodeEligibility{
			NodeID: n.ID, Eligibility: model.NodeSchedulingIneligible, UpdatedAt: a.now().Unix(),
			Event: &model.NodeEvent{Subsystem: "Scheduler", Timestamp: a.now().UTC(), Message: fmt.Sprintf(
				"Node marked as ineligible: it refused %d plans within %s, the last one because of: %s", a.refusals.Threshold, a.refusals.Window, refused.Reason)},
		})
	}
}
