// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
)

// monitor follows an evaluation and its deployment until both end.
func (s *session) monitor(ctx context.Context, evalID string) error {
	s.step("Monitoring evaluation %q", s.id(evalID))
	eval, err := s.awaitEval(ctx, evalID)
	if err != nil {
		return err
	}
	s.step("Evaluation %q finished with status %q", s.id(eval.ID), eval.Status)
	if eval.Status == model.EvalStatusFailed || eval.Status == model.EvalStatusCancelled {
		return fmt.Errorf("evaluation %s: %s", eval.Status, eval.StatusDescription)
	}
	if err := s.listPlaced(ctx, eval.ID); err != nil {
		return err
	}
	for _, line := range eval.Holds(time.Now()) {
		s.step("%s", visible(line))
	}
	if len(eval.FailedTGAllocs) > 0 {
		return s.notPlaced(eval)
	}
	if eval.DeploymentID != "" {
		err := s.watchDeployment(ctx, eval.DeploymentID, 0)
		if errdefs.IsNotFound(err) {
			s.step("Deployment %q was collected, and what became of it is not known any more", s.id(eval.DeploymentID))
			return nil
		}
		return err
	}
	return nil
}

// notPlaced prints why allocs could not be placed. It does not wait for the blocked
// evaluation: only more capacity or another job helps, and a deployment waits for
// that until its deadline.
func (s *session) notPlaced(eval *model.Evaluation) error {
	s.step("Failed to place all allocations:")
	s.placementFailures(eval.FailedTGAllocs)
	if eval.BlockedEval != "" {
		s.printf("    Evaluation %q waits for more capacity to place the rest", s.id(eval.BlockedEval))
	}
	if eval.DeploymentID != "" {
		s.printf("    Follow the deployment with: drover deployment status -monitor %s", s.id(eval.DeploymentID))
	}
	return &exitCode{code: exitPlacement}
}

// awaitEval waits until an evaluation is processed. It does not wait for follow-up
// evaluations that start later (rescheduling, rolling updates). If it has to wait, it says
// why.
func (s *session) awaitEval(ctx context.Context, id string) (*model.Evaluation, error) {
	q := &client.Query{}
	seen, said := uint64(0), ""
	for {
		eval, meta, err := s.client.Evaluation(ctx, id, false, q)
		if err != nil {
			return nil, err
		}
		if eval.TerminalStatus() || eval.Status == model.EvalStatusBlocked {
			return eval, nil
		}
		if eval.ModifyIndex == seen {
			said = s.whyPending(ctx, id, said)
		}
		seen = eval.ModifyIndex
		q.WaitIndex, q.WaitTime = meta.Index, 5*time.Second
	}
}

// whyPending prints what a pending evaluation waits for, unless that was said before. It
// returns what has been said.
func (s *session) whyPending(ctx context.Context, id, said string) string {
	x, err := s.client.ExplainEvaluation(ctx, id)
	if err != nil || len(x.Says) == 0 || x.Says[0] == said {
		return said // servers of the reference do not explain
	}
	s.step("Evaluation %q is pending. %s", s.id(id), visible(x.Says[0]))
	return x.Says[0]
}

func (s *session) listPlaced(ctx context.Context, evalID string) error {
	allocs, _, err := s.client.EvaluationAllocations(ctx, evalID, nil)
	if err != nil {
		return err
	}
	sort.Slice(allocs, func(i, j int) bool { return allocs[i].Name < allocs[j].Name })
	for _, a := range allocs {
		if a.DesiredStatus == model.AllocDesiredStatusRun {
			s.printf("    Allocation %q: %s on node %q", s.id(a.ID), a.Name, s.id(a.NodeID))
		}
	}
	return nil
}

// watchDeployment shows the progress of a deployment until it ends, and the progress of
// starts that take long. On a terminal it redraws the table in place; elsewhere it prints
// the table after each change, and a line about starts every few seconds. It draws at most
// once per pause.
func (s *session) watchDeployment(ctx context.Context, id string, pause time.Duration) error {
	s.step("Monitoring deployment %q", s.id(id))
	view := &deploymentView{session: s}
	q := &client.Query{}
	for {
		d, meta, err := s.client.Deployment(ctx, id, q)
		if errdefs.IsNotFound(err) {
			if past, _, failed := s.client.PastDeployment(ctx, id, nil); failed == nil {
				return s.deploymentResult(past.Deployment)
			}
		}
		if err != nil {
			return err
		}
		starting := awaitsStarts(d)
		var starts []string
		if starting {
			starts = s.startsOf(ctx, id)
		}
		view.draw(d, starts)
		if !d.Active() {
			return s.deploymentResult(d)
		}
		if d.Status == model.DeploymentStatusPaused {
			s.printf("The deployment is paused; continue it with: drover deployment resume %s", s.id(d.ID))
			return nil
		}
		if d.RequiresPromotion() && canariesHealthy(d) && !autoPromotes(d) {
			s.printf("All canaries are healthy; continue with: drover deployment promote %s", s.id(d.ID))
			return nil
		}
		q.WaitIndex, q.WaitTime = meta.Index, 5*time.Second
		if starting {
			q.WaitTime = startsPause
		}
		if err := sleep.For(ctx, pause); err != nil {
			return err
		}
	}
}

func (s *session) deploymentResult(d *model.Deployment) error {
	if d.Status == model.DeploymentStatusSuccessful {
		s.step("%s", s.paint("32", "Deployment "+strconv.Quote(s.id(d.ID))+" successful"))
		return nil
	}
	return &exitCode{exitError, fmt.Errorf("deployment %s: %s", d.Status, d.StatusDescription)}
}

func canariesHealthy(d *model.Deployment) bool {
	for _, g := range d.TaskGroups {
		if g.DesiredCanaries > 0 && !g.Promoted && g.HealthyAllocs < g.DesiredCanaries {
			return false
		}
	}
	return true
}

func autoPromotes(d *model.Deployment) bool {
	for _, g := range d.TaskGroups {
		if g.DesiredCanaries > 0 && !g.AutoPromote {
			return false
		}
	}
	return true
}

// deploymentView draws a deployment repeatedly.
type deploymentView struct {
	*session
	lines int    // lines of the last drawing
	last  string // text of the last drawing
	told  startsTold
}

func (v *deploymentView) draw(d *model.Deployment, starts []string) {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(d.TaskGroups)) {
		g := d.TaskGroups[name]
		canaries := ""
		if g.DesiredCanaries > 0 {
			canaries = fmt.Sprintf(", canaries %d/%d, promoted %t", len(g.PlacedCanaries), g.DesiredCanaries, g.Promoted)
		}
		lines = append(lines, fmt.Sprintf("    %s: desired %d, placed %d, healthy %d, unhealthy %d%s", name, g.DesiredTotal, g.PlacedAllocs, g.HealthyAllocs, g.UnhealthyAllocs, canaries))
	}
	lines = append(lines, "    "+d.Status+": "+d.StatusDescription)
	if v.redraws {
		lines = append(lines, starts...)
	} else if v.told.due(starts, time.Now()) {
		v.printf("%s", strings.Join(starts, "\n"))
	}
	text := strings.Join(lines, "\n")
	if text == v.last {
		return
	}
	v.last = text
	if v.redraws {
		if v.lines > 0 {
			fmt.Fprintf(v.Out, "\x1b[%dA\x1b[J", v.lines)
		}
		if size, ok := sizeOf(v.Out); ok {
			text = cut(lines, size.Width-1) // a wrapped line would take two rows of the terminal
		}
	}
	v.printf("%s", text)
	v.lines = len(lines)
}

// cut truncates lines to width columns and joins them.
func cut(lines []string, width int) string {
	out := make([]string, len(lines))
	for i, l := range lines {
		for width > 0 && cellWidth(l) > width {
			_, last := utf8.DecodeLastRuneInString(l)
			l = l[:len(l)-last]
		}
		out[i] = l
	}
	return strings.Join(out, "\n")
}

// placementFailures prints for each group why allocs could not be placed.
func (s *session) placementFailures(failed map[string]*model.AllocMetric) {
	for _, group := range slices.Sorted(maps.Keys(failed)) {
		m := failed[group]
		s.printf("  Task Group %q (failed to place %d allocation(s)):", group, m.CoalescedFailures+1)
		for _, line := range metricLines(m) {
			s.printf("    * %s", line)
		}
	}
}

// metricLines returns the scheduler's reasons as text.
func metricLines(m *model.AllocMetric) []string {
	var out []string
	if m.NodesEvaluated == 0 {
		out = append(out, "No nodes were eligible for evaluation")
	}
	for _, dc := range slices.Sorted(maps.Keys(m.NodesAvailable)) {
		if m.NodesAvailable[dc] == 0 {
			out = append(out, fmt.Sprintf("No nodes are available in datacenter %q", dc))
		}
	}
	for _, class := range slices.Sorted(maps.Keys(m.ClassFiltered)) {
		out = append(out, fmt.Sprintf("Class %q: %d nodes excluded by filter", class, m.ClassFiltered[class]))
	}
	for _, c := range slices.Sorted(maps.Keys(m.ConstraintFiltered)) {
		out = append(out, fmt.Sprintf("Constraint %q: %d nodes excluded by filter", c, m.ConstraintFiltered[c]))
	}
	if m.NodesExhausted > 0 {
		out = append(out, fmt.Sprintf("Resources exhausted on %d nodes", m.NodesExhausted))
	}
	for _, class := range slices.Sorted(maps.Keys(m.ClassExhausted)) {
		out = append(out, fmt.Sprintf("Class %q exhausted on %d nodes", class, m.ClassExhausted[class]))
	}
	for _, dim := range slices.Sorted(maps.Keys(m.DimensionExhausted)) {
		out = append(out, fmt.Sprintf("Dimension %q exhausted on %d nodes", dim, m.DimensionExhausted[dim]))
	}
	for _, quota := range m.QuotaExhausted {
		out = append(out, fmt.Sprintf("Quota limit hit %q", quota))
	}
	return out
}
