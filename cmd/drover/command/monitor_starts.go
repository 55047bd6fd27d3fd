// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
)

const (
	// maxStarts is about how many allocs that start the nodes are asked at a time.
	maxStarts = 3
	// startsPause is the time after which they are asked again.
	startsPause = time.Second
	// startsLimit limits the asking, for which a monitor does not stop.
	startsLimit = 2 * time.Second
)

// awaitsStarts reports whether allocs of a deployment may be starting.
func awaitsStarts(d *model.Deployment) bool {
	if !d.Active() {
		return false
	}
	for _, g := range d.TaskGroups {
		if g.PlacedAllocs > g.HealthyAllocs+g.UnhealthyAllocs {
			return true
		}
	}
	return false
}

// startsOf returns a line for each start of a task that is under way and for which its node
// knows the progress, such as the downloaded part of an image. Starts without one are left
// out.
func (s *session) startsOf(ctx context.Context, deployment string) (lines []string) {
	ctx, cancel := context.WithTimeout(ctx, startsLimit)
	defer cancel()
	allocs, _, err := s.client.DeploymentAllocations(ctx, deployment, nil)
	if err != nil {
		return nil
	}
	allocs = slices.DeleteFunc(allocs, func(a *model.AllocListStub) bool {
		return a.ClientStatus != model.AllocClientStatusPending || a.DesiredStatus != model.AllocDesiredStatusRun
	})
	slices.SortFunc(allocs, func(a, b *model.AllocListStub) int { return strings.Compare(a.Name, b.Name) })
	for _, a := range allocs[:min(len(allocs), maxStarts)] {
		now, err := s.client.AllocationTasks(ctx, a.ID)
		if err != nil {
			continue // the node has not got it yet, or is older
		}
		for _, name := range slices.Sorted(maps.Keys(now.Tasks)) {
			if t := now.Tasks[name]; t != nil && t.Start != nil && t.Start.Detail != "" {
				lines = append(lines, fmt.Sprintf("    Allocation %q, task %q: %s", s.id(a.ID), visible(name), visible(t.Start.Detail)))
			}
		}
	}
	if n := len(allocs) - maxStarts; n > 0 && len(lines) > 0 {
		lines = append(lines, fmt.Sprintf("    and %d more allocations that start", n))
	}
	return lines
}

// startsTold is what was last printed about starts if the output cannot be redrawn.
type startsTold struct {
	text string
	at   time.Time
}

// due reports whether lines are to be printed: they are news, and the last ones were printed
// some seconds ago.
func (t *startsTold) due(lines []string, now time.Time) bool {
	text := strings.Join(lines, "\n")
	if text == "" || text == t.text || now.Sub(t.at) < progressPause {
		return false
	}
	t.text, t.at = text, now
	return true
}
