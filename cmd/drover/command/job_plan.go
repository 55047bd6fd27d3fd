// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

func jobPlan() spec {
	return spec{
		usage: "job plan [options] <path>", synopsis: "Shows what registering a job would change, without registering it",
		help: "The path may be - for standard input, or an http or https URL.\n\nExit codes: 0 if no allocations would be created or destroyed, 1 if some would be,\n255 on an error.",
		min:  1, max: 1, failCode: exitPlanError, takes: takesFiles, template: true,
		setup: func(fs *flag.FlagSet) run {
			f := &jobFile{}
			f.declare(fs)
			var (
				diff     = fs.Bool("diff", true, "Shows the difference to the registered job.")
				override = fs.Bool("policy-override", false, "Overrides soft policies of the cluster.")
				asJSON   = fs.Bool("json-output", false, "Prints the plan as JSON.")
				why      = fs.Bool("why", false, "Shows where each group could run and why not elsewhere, by node class and node, and what would help.")
				down     = lists(fs, "node-down", "Plans as if this node were down.")
				drain    = lists(fs, "drain", "Plans as if this node were draining.")
				counts   = keyValues{}
			)
			fs.Var(counts, "count", "Plans with another count of a group, as GROUP=N. May be given several times.")
			return func(ctx context.Context, s *session, args []string) error {
				draft, _, err := f.load(ctx, args[0], s)
				if err != nil {
					return err
				}
				body, err := s.encode(draft)
				if err != nil {
					return err
				}
				if draft.ID == nil {
					return fmt.Errorf("the job has no ID; set it")
				}
				req := &api.JobPlanRequest{Job: body, Diff: *diff, PolicyOverride: *override, Why: *why, Say: true}
				if req.WhatIf, err = s.whatIf(ctx, *down, *drain, counts); err != nil {
					return err
				}
				plan, err := s.client.PlanJob(ctx, *draft.ID, req)
				if err != nil {
					return s.refused(ctx, draft, body, err)
				}
				s.json = *asJSON // here -json means that the job file is JSON, not that the output is
				if done, err := s.formatted(plan); done {
					if err != nil {
						return err
					}
				} else {
					plan.Warnings = (&driverReport{draft, plan.Findings}).locate(plan.Warnings)
					if err := s.printPlan(plan, args[0], req.WhatIf == nil); err != nil {
						return err
					}
				}
				if changesAllocs(plan.Annotations) || len(plan.Held) > 0 {
					return &exitCode{code: 1}
				}
				return nil
			}
		},
	}
}

func changesAllocs(a *model.PlanAnnotations) bool {
	if a == nil {
		return false
	}
	for _, u := range a.DesiredTGUpdates {
		if u.Place+u.Migrate+u.Stop+u.DestructiveUpdate+u.Canary > 0 {
			return true
		}
	}
	return false
}

// printPlan prints a plan. real is false if the cluster or the job is not as assumed, so that
// nothing of the kind can be submitted.
func (s *session) printPlan(plan *api.JobPlanResponse, path string, real bool) error {
	if plan.Diff != nil {
		d, err := diffOf(plan.Diff)
		if err != nil {
			return err
		}
		s.printf("%s", s.jobDiff(d))
	}
	s.title("Scheduler dry-run:")
	for _, group := range slices.Sorted(maps.Keys(plan.Held)) {
		h := plan.Held[group]
		s.printf("- Group %q %s (%d allocation(s) are placed then).", group, visible(h.Say(time.Now())), h.Allocs)
	}
	switch {
	case len(plan.FailedTGAllocs) == 0 && len(plan.Held) > 0:
		s.printf("- All other tasks successfully allocated.")
	case len(plan.FailedTGAllocs) == 0:
		s.printf("- All tasks successfully allocated.")
	default:
		s.printf("- WARNING: Failed to place all allocations.")
		s.placementFailures(plan.FailedTGAllocs)
		for _, line := range plan.Says {
			s.printf("- %s", visible(line))
		}
	}
	if plan.Annotations != nil {
		s.preemptions(plan.Annotations.PreemptedAllocs)
	}
	if plan.NextPeriodicLaunch != nil && !plan.NextPeriodicLaunch.IsZero() {
		s.printf("- If submitted now, next periodic launch would be at %s.", upcoming(*plan.NextPeriodicLaunch))
	}
	s.placed(plan.Placed)
	for _, g := range plan.Groups {
		s.groupExplanation(g)
	}
	s.printf("")
	s.warn(plan.Warnings)
	if !real {
		s.printf("Nothing of this was submitted: the plan is for what -node-down, -drain and -count assume.")
		return nil
	}
	s.title("Job Modify Index: %d", plan.JobModifyIndex)
	s.printf("To submit the job with version verification run:\n\ndrover job run -check-index %d %s\n", plan.JobModifyIndex, path)
	s.printf("When running the job with the check-index flag, the job will only be run if the\njob modify index given matches the server-side version. If the index has\nchanged, another user has modified the job and the plan's results are\npotentially invalid.")
	return nil
}

// placed lists how many allocs would start on which node.
func (s *session) placed(list []*api.PlannedAlloc) {
	if len(list) == 0 {
		return
	}
	type place struct{ group, id, name string }
	counts := map[place]int{}
	for _, a := range list {
		counts[place{a.TaskGroup, a.NodeID, a.NodeName}]++
	}
	var rows [][]string
	for _, p := range slices.SortedFunc(maps.Keys(counts), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id))
	}) {
		rows = append(rows, []string{p.group, s.id(p.id), p.name, text(counts[p])})
	}
	s.title("\nWhere allocations would start:")
	s.table([]string{"Task Group", "Node ID", "Node", "Allocations"}, rows)
}

// whatIf reads what a plan assumes; nil if that is nothing.
func (s *session) whatIf(ctx context.Context, down, drain []string, counts keyValues) (*api.WhatIf, error) {
	if len(down)+len(drain)+len(counts) == 0 {
		return nil, nil
	}
	w := &api.WhatIf{Counts: map[string]int{}}
	for group, number := range counts {
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("-count %s=%s: give a group and its count, such as web=3", group, number)
		}
		w.Counts[group] = n
	}
	for _, nodes := range []struct {
		from []string
		to   *[]string
	}{{down, &w.NodesDown}, {drain, &w.NodesDraining}} {
		for _, prefix := range nodes.from {
			id, err := s.wholeNodeID(ctx, prefix)
			if err != nil {
				return nil, err
			}
			*nodes.to = append(*nodes.to, id)
		}
	}
	return w, nil
}

// maxPreemptions is how many preempted allocs are listed one by one.
const maxPreemptions = 10

// preemptions lists the allocs that would be preempted; if they are many, by job.
func (s *session) preemptions(list []*model.AllocListStub) {
	if len(list) == 0 {
		return
	}
	s.title("\nPreemptions:")
	var rows [][]string
	if len(list) <= maxPreemptions {
		for _, a := range list {
			rows = append(rows, []string{s.id(a.ID), a.JobID, a.Namespace, a.TaskGroup})
		}
		s.table([]string{"Alloc ID", "Job ID", "Namespace", "Task Group"}, rows)
		return
	}
	type group struct{ job, namespace, typ string }
	counts := map[group]int{}
	for _, a := range list {
		counts[group{a.JobID, a.Namespace, a.JobType}]++
	}
	byCount := func(a, b group) int {
		return cmp.Or(-cmp.Compare(counts[a], counts[b]), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.job, b.job))
	}
	for _, g := range slices.SortedFunc(maps.Keys(counts), byCount) {
		rows = append(rows, []string{g.job, g.namespace, g.typ, text(counts[g])})
	}
	s.table([]string{"Job ID", "Namespace", "Job Type", "Preemptions"}, rows)
}

// diffOf decodes the job diff of an answer.
func diffOf(v any) (*model.JobDiff, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("cannot read the difference in the agent's answer: %w", err)
	}
	d := &model.JobDiff{}
	if err := json.Unmarshal(b, d); err != nil {
		return nil, fmt.Errorf("cannot read the difference in the agent's answer: %w", err)
	}
	return d, nil
}

// jobDiff formats a job diff as text.
func (s *session) jobDiff(d *model.JobDiff) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%sJob: %q\n", s.mark(d.Type), d.ID)
	s.diffParts(&b, 0, d.Fields, d.Objects)
	for _, g := range d.TaskGroups {
		updates := ""
		if len(g.Updates) > 0 {
			var parts []string
			for _, k := range slices.Sorted(maps.Keys(g.Updates)) {
				parts = append(parts, fmt.Sprintf("%d %s", g.Updates[k], k))
			}
			updates = " (" + strings.Join(parts, ", ") + ")"
		}
		fmt.Fprintf(&b, "%sTask Group: %q%s\n", s.mark(g.Type), g.Name, updates)
		s.diffParts(&b, 1, g.Fields, g.Objects)
		for _, t := range g.Tasks {
			note := ""
			if len(t.Annotations) > 0 {
				note = " (" + strings.Join(t.Annotations, ", ") + ")"
			}
			fmt.Fprintf(&b, "  %sTask: %q%s\n", s.mark(t.Type), t.Name, note)
			if t.Type == model.DiffTypeEdited || s.verbose {
				s.diffParts(&b, 2, t.Fields, t.Objects)
			}
		}
	}
	return b.String()
}

func (s *session) mark(t model.DiffType) string {
	switch t {
	case model.DiffTypeAdded:
		return s.paint("32", "+") + " "
	case model.DiffTypeDeleted:
		return s.paint("31", "-") + " "
	case model.DiffTypeEdited:
		return s.paint("33", "+/-") + " "
	}
	return ""
}

func (s *session) diffParts(b *strings.Builder, depth int, fields []*model.FieldDiff, objects []*model.ObjectDiff) {
	indent := strings.Repeat("  ", depth)
	for _, f := range fields {
		note := ""
		if len(f.Annotations) > 0 {
			note = " (" + strings.Join(f.Annotations, ", ") + ")"
		}
		switch f.Type {
		case model.DiffTypeEdited:
			fmt.Fprintf(b, "%s%s%s: %q => %q%s\n", indent, s.mark(f.Type), f.Name, f.Old, f.New, note)
		case model.DiffTypeAdded:
			fmt.Fprintf(b, "%s%s%s: %q%s\n", indent, s.mark(f.Type), f.Name, f.New, note)
		case model.DiffTypeDeleted:
			fmt.Fprintf(b, "%s%s%s: %q%s\n", indent, s.mark(f.Type), f.Name, f.Old, note)
		default:
			if s.verbose {
				fmt.Fprintf(b, "%s%s: %q\n", indent, f.Name, f.New)
			}
		}
	}
	for _, o := range objects {
		fmt.Fprintf(b, "%s%s%s {\n", indent, s.mark(o.Type), o.Name)
		s.diffParts(b, depth+1, o.Fields, o.Objects)
		fmt.Fprintf(b, "%s}\n", indent)
	}
}
