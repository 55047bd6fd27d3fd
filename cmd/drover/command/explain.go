// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
)

// explains defines a command that explains an object.
func explains(what, object, takes, synopsis string, ask func(ctx context.Context, s *session, id string) (*model.Explanation, error)) spec {
	return spec{
		usage: what + " explain [options] <" + object + ">", synopsis: synopsis, min: 1, max: 1, output: true, takes: takes,
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, args []string) error {
				x, err := ask(ctx, s, args[0])
				return s.show(x, err, func() { s.explanation(x) })
			}
		},
	}
}

func jobExplain() spec {
	return explains("job", "job", "jobs", "Explains what a job waits for, where more of it could run, and what would help", func(ctx context.Context, s *session, id string) (*model.Explanation, error) {
		job, err := s.findJob(ctx, id)
		if err != nil {
			return nil, err
		}
		return s.client.ExplainJob(ctx, job.ID)
	})
}

func allocExplain() spec {
	return explains("alloc", "allocation", "allocs", "Explains why an allocation is where it is, and what becomes of it", func(ctx context.Context, s *session, id string) (*model.Explanation, error) {
		a, err := s.findAlloc(ctx, id)
		if err != nil {
			return nil, err
		}
		return s.client.ExplainAllocation(ctx, a.ID)
	})
}

func evalExplain() spec {
	return explains("eval", "evaluation", "evals", "Explains what an evaluation waits for, what wakes it, and what would help", func(ctx context.Context, s *session, id string) (*model.Explanation, error) {
		e, err := s.everEval(ctx, id)
		if err != nil {
			return nil, err
		}
		if !e.CollectedAt.IsZero() {
			return ended("Evaluation", e.ID, e.Status, e.StatusDescription, e.CollectedAt, "eval status"), nil
		}
		return s.client.ExplainEvaluation(ctx, e.ID)
	})
}

func deploymentExplain() spec {
	return explains("deployment", "deployment", "deployment", "Explains what a deployment waits for, and when it ends", func(ctx context.Context, s *session, id string) (*model.Explanation, error) {
		d, err := s.everDeployment(ctx, id)
		if err != nil {
			return nil, err
		}
		if !d.CollectedAt.IsZero() {
			return ended("Deployment", d.ID, d.Status, d.StatusDescription, d.CollectedAt, "deployment status"), nil
		}
		return s.client.ExplainDeployment(ctx, d.ID)
	})
}

// ended explains what was collected: it had ended before, and waits for nothing.
func ended(what, id, status, description string, collected time.Time, see string) *model.Explanation {
	says := fmt.Sprintf("%s %s has ended with status %q", what, id, status)
	if description != "" {
		says += ": " + description
	}
	return &model.Explanation{ID: id, Says: []string{
		says, fmt.Sprintf("It was collected at %s, so it waits for nothing. What it did: drover %s %s", when(collected), see, id),
	}}
}

func nodeExplain() spec {
	return explains("node", "node", "nodes", "Explains what a node has left, and why work that waits does not run there", func(ctx context.Context, s *session, id string) (*model.Explanation, error) {
		id, err := s.wholeNodeID(ctx, id)
		if err != nil {
			return nil, err
		}
		return s.client.ExplainNode(ctx, id)
	})
}

func (s *session) explanation(x *model.Explanation) {
	for _, line := range x.Says {
		s.printf("%s", visible(line))
	}
	for _, g := range x.Groups {
		s.groupExplanation(g)
	}
}

// groupExplanation shows where a group could run: by node class, by node, and what would
// help.
func (s *session) groupExplanation(g *model.GroupExplanation) {
	s.title("\nGroup %q: %d of %d nodes could take one more allocation", g.Group, g.Open, g.Nodes)
	var rows [][]string
	for _, c := range g.Classes {
		class := c.Class
		if c.Open > 0 || len(c.Refused) == 0 {
			rows = append(rows, []string{class, strconv.Itoa(c.Open), "open"})
		}
		for _, why := range slices.Sorted(maps.Keys(c.Refused)) {
			rows = append(rows, []string{class, strconv.Itoa(c.Refused[why]), why})
		}
	}
	s.table([]string{"Node Class", "Nodes", "Verdict"}, rows)
	if len(g.Best) > 0 {
		s.title("\nBest nodes")
		rows = nil
		for _, n := range g.Best {
			var parts []string
			for _, p := range n.Parts {
				parts = append(parts, fmt.Sprintf("%s %.3f x %.2f", p.Name, p.Score, p.Weight))
			}
			rows = append(rows, []string{s.id(n.ID), n.Name, fmt.Sprintf("%.3f", n.Score), strings.Join(parts, " + ")})
		}
		s.table([]string{"Node ID", "Name", "Score", "Parts x weights"}, rows)
	}
	if len(g.Refused) > 0 {
		s.title("\nNodes that do not fit, the closest first")
		rows = nil
		for _, n := range g.Refused {
			var lacks []string
			for _, l := range n.Lacks {
				lacks = append(lacks, fmt.Sprintf("%s: %d asked, %d free", l.Resource, l.Needs, l.Free))
			}
			rows = append(rows, []string{s.id(n.ID), n.Name, n.Refused, strings.Join(lacks, ", ")})
		}
		s.table([]string{"Node ID", "Name", "Why", "Lacks"}, rows)
	}
	if g.Missing == 0 {
		return
	}
	s.title("\nWhat would help")
	rows = nil
	for _, r := range g.Remedies {
		rows = append(rows, []string{r.Change, strconv.Itoa(r.Missing)})
	}
	s.tableOr("No single change that was tried helps", []string{"Change", "Still missing"}, rows)
}
