// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"strconv"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

func (s *session) findEval(ctx context.Context, prefix string) (*model.Evaluation, error) {
	id, err := wholeID(ctx, "evaluation", prefix, func(ctx context.Context, q *client.Query) ([]string, error) {
		list, _, err := s.anyNamespace().Evaluations(ctx, q)
		return idsOf(list, func(e *model.Evaluation) string { return e.ID }), err
	})
	if err != nil {
		return nil, err
	}
	e, _, err := s.client.Evaluation(ctx, id, true, nil)
	return e, err
}

func (s *session) evalTable(evals []*model.Evaluation) {
	var rows [][]string
	for _, e := range evals {
		rows = append(rows, []string{s.id(e.ID), strconv.Itoa(e.Priority), e.TriggeredBy, e.JobID, s.id(e.NodeID), e.Status, strconv.FormatBool(len(e.FailedTGAllocs) > 0)})
	}
	s.table([]string{"ID", "Priority", "Triggered By", "Job ID", "Node ID", "Status", "Placement Failures"}, rows)
}

func evalList() spec {
	return spec{
		usage: "eval list [options]", synopsis: "Lists evaluations", output: true,
		setup: func(fs *flag.FlagSet) run {
			q := &client.Query{Params: map[string][]string{}}
			fs.StringVar(&q.Filter, "filter", "", "Filters by an expression.")
			fs.IntVar(&q.PerPage, "per-page", 0, "Number of results.")
			fs.StringVar(&q.NextToken, "page-token", "", "Where to go on.")
			job := fs.String("job", "", "Only of this job.")
			status := fs.String("status", "", "Only with this status.")
			return func(ctx context.Context, s *session, _ []string) error {
				for name, v := range map[string]string{"job": *job, "status": *status} {
					if v != "" {
						q.Params[name] = []string{v}
					}
				}
				list, meta, err := s.client.Evaluations(ctx, q)
				if err != nil {
					return err
				}
				if done, err := s.formatted(list); done {
					return err
				}
				if len(list) == 0 {
					s.printf("No evals found")
					return nil
				}
				s.evalTable(list)
				if meta.NextToken != "" {
					s.printf("\nResults have been paginated. Continue with -page-token %s", meta.NextToken)
				}
				return nil
			}
		},
	}
}

func evalStatus() spec {
	return spec{
		usage: "eval status [options] <evaluation>", synopsis: "Shows an evaluation and why it placed what it placed", min: 1, max: 1, output: true,
		setup: func(fs *flag.FlagSet) run {
			monitor := fs.Bool("monitor", false, "Follows the evaluation to its end.")
			return func(ctx context.Context, s *session, args []string) error {
				e, err := s.findEval(ctx, args[0])
				if err != nil {
					return err
				}
				if *monitor {
					return s.monitor(ctx, e.ID)
				}
				if done, err := s.formatted(e); done {
					return err
				}
				s.describeEval(e)
				allocs, _, err := s.client.EvaluationAllocations(ctx, e.ID, nil)
				if err != nil {
					return err
				}
				s.title("\nPlaced Allocations")
				s.allocTable(allocs)
				return nil
			}
		},
	}
}

func (s *session) describeEval(e *model.Evaluation) {
	description := e.StatusDescription
	if description == "" {
		description = e.Status
	}
	kv := []string{"ID", e.ID, "Create Time", ago(e.CreateTime), "Modify Time", ago(e.ModifyTime), "Status", e.Status, "Status Description", description,
		"Type", e.Type, "TriggeredBy", e.TriggeredBy, "Job ID", e.JobID, "Namespace", e.Namespace, "Node ID", s.id(e.NodeID), "Priority", strconv.Itoa(e.Priority),
		"Placement Failures", strconv.FormatBool(len(e.FailedTGAllocs) > 0)}
	for _, link := range [][2]string{{"Deployment ID", e.DeploymentID}, {"Previous Eval", e.PreviousEval}, {"Next Eval", e.NextEval}, {"Blocked Eval", e.BlockedEval}} {
		if link[1] != "" {
			kv = append(kv, link[0], s.id(link[1]))
		}
	}
	if !e.WaitUntil.IsZero() {
		kv = append(kv, "Wait Until", date(e.WaitUntil.UnixNano()))
	}
	s.pairs(kv...)
	if len(e.FailedTGAllocs) > 0 {
		s.title("\nFailed Placements")
		s.placementFailures(e.FailedTGAllocs)
	}
}
