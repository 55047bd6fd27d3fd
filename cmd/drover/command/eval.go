// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

func (s *session) evalTable(evals []*model.Evaluation) {
	var rows [][]string
	for _, e := range evals {
		rows = append(rows, []string{s.id(e.ID), strconv.Itoa(e.Priority), e.TriggeredBy, e.JobID, s.id(e.NodeID), e.Status, strconv.FormatBool(len(e.FailedTGAllocs) > 0)})
	}
	s.table([]string{"ID", "Priority", "Triggered By", "Job ID", "Node ID", "Status", "Placement Failures"}, rows)
}

// everEvals prints a list with history.
func (s *session) everEvals(evals []*model.PastEvaluation) {
	var rows [][]string
	for _, e := range evals {
		rows = append(rows, []string{s.id(e.ID), strconv.Itoa(e.Priority), e.TriggeredBy, e.JobID, s.id(e.NodeID), e.Status, strconv.FormatBool(len(e.FailedTGAllocs) > 0), when(e.CollectedAt)})
	}
	s.table([]string{"ID", "Priority", "Triggered By", "Job ID", "Node ID", "Status", "Placement Failures", "Collected"}, rows)
}

// listEver lists evaluations with history.
func (s *session) listEver(ctx context.Context, q *paging, ui bool) error {
	list, meta, err := s.client.PastEvaluations(ctx, &q.Query)
	return s.show(list, err, func() {
		s.maybeUI(ui, "evaluations")
		if len(list) == 0 {
			s.printf("No evals found")
		} else {
			s.everEvals(list)
		}
		s.extent(meta)
		q.more(s, meta)
	})
}

// evalStatuses are the values of -status.
var evalStatuses = []string{model.EvalStatusBlocked, model.EvalStatusPending, model.EvalStatusComplete, model.EvalStatusFailed, model.EvalStatusCancelled}

func evalList() spec {
	return spec{
		usage: "eval list [options]", synopsis: "Lists evaluations", output: true,
		setup: func(fs *flag.FlagSet) run {
			q := filterFlags(fs, true)
			job := fs.String("job", "", "Only evaluations of this job.")
			status := fs.String("status", "", "Only evaluations with this status.")
			all := allFlag(fs, "evaluations")
			show := uiFlag(fs)
			return func(ctx context.Context, s *session, _ []string) error {
				if *status != "" && !slices.Contains(evalStatuses, *status) {
					return fmt.Errorf("-status %q: use one of %s", *status, strings.Join(evalStatuses, ", "))
				}
				q.Params = url.Values{}
				for name, v := range map[string]string{"job": *job, "status": *status} {
					if v != "" {
						q.Params.Set(name, v)
					}
				}
				if *all {
					return s.listEver(ctx, q, *show)
				}
				list, meta, err := s.client.Evaluations(ctx, &q.Query)
				if err != nil {
					return err
				}
				if done, err := s.formatted(list); done {
					return err
				}
				s.maybeUI(*show, "evaluations")
				if len(list) == 0 {
					s.printf("No evals found")
					return nil
				}
				s.evalTable(list)
				q.more(s, meta)
				return nil
			}
		},
	}
}

func evalStatus() spec {
	return spec{
		usage: "eval status [options] <evaluation>", synopsis: "Shows an evaluation and explains its placements", min: 1, max: 1, output: true, takes: "evals", past: true,
		help: "With -monitor the exit code is 2 if some allocations could not be placed.\nAn evaluation that was collected is looked up in the history of the server that answers.",
		setup: func(fs *flag.FlagSet) run {
			monitor := fs.Bool("monitor", false, "Follows the evaluation to its end.")
			show := uiFlag(fs)
			return func(ctx context.Context, s *session, args []string) error {
				past, err := s.everEval(ctx, args[0])
				if err != nil {
					return err
				}
				if !past.CollectedAt.IsZero() {
					return s.showPastEval(past)
				}
				e := past.Evaluation
				s.client = s.client.WithNamespace(e.Namespace)
				if *monitor {
					return s.monitor(ctx, e.ID)
				}
				if done, err := s.formatted(e); done {
					return err
				}
				s.maybeUI(*show, uiEval(e.ID))
				s.describeEval(e)
				s.waiting(ctx, e)
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

// showPastEval prints an evaluation that was collected. Its allocs were collected with it.
func (s *session) showPastEval(e *model.PastEvaluation) error {
	if done, err := s.formatted(e); done {
		return err
	}
	s.describeEval(e.Evaluation)
	s.printf("\nIt was collected at %s, with its allocations; this is from the history of a server.", when(e.CollectedAt))
	return nil
}

func evalDelete() spec {
	return spec{
		usage: "eval delete [options] [<evaluation>]", synopsis: "Deletes one evaluation, or all that match a filter", max: 1, takes: "evals",
		help: "Only evaluations that are complete, failed or cancelled can be deleted. The servers' garbage\ncollection deletes them automatically; this command is for clusters that have far too many.",
		setup: func(fs *flag.FlagSet) run {
			filter := fs.String("filter", "", "Deletes the evaluations that match an expression, such as 'JobID == \"web\"'.")
			yes := yesFlag(fs, "the prompt before the matching evaluations are deleted")
			return func(ctx context.Context, s *session, args []string) error {
				var ids []string
				switch {
				case (*filter != "") == (len(args) == 1):
					return errors.New("give either an evaluation or -filter")
				case *filter == "":
					e, err := s.findEval(ctx, args[0])
					if err != nil {
						return err
					}
					ids = []string{e.ID}
					s.client = s.client.WithNamespace(e.Namespace)
				default:
					n, err := s.client.CountEvaluations(ctx, &client.Query{Filter: *filter})
					if err != nil {
						return err
					}
					if n == 0 {
						s.printf("No evaluations match")
						return nil
					}
					if sure, err := s.confirm(*yes, "Delete %d evaluations?", n); !sure {
						return err
					}
				}
				res, err := s.client.DeleteEvaluations(ctx, ids, *filter)
				if err != nil {
					return err
				}
				s.printf("Successfully deleted %d evaluations", max(res.Count, len(ids)))
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
	if len(e.RelatedEvals) > 0 {
		s.title("\nRelated Evaluations")
		var rows [][]string
		for _, r := range e.RelatedEvals {
			rows = append(rows, []string{s.id(r.ID), strconv.Itoa(r.Priority), r.TriggeredBy, s.id(r.NodeID), r.Status, r.StatusDescription})
		}
		s.table([]string{"ID", "Priority", "Triggered By", "Node ID", "Status", "Description"}, rows)
	}
	s.heldBy(e, "\nDependencies")
	if len(e.FailedTGAllocs) > 0 {
		s.title("\nFailed Placements")
		s.placementFailures(e.FailedTGAllocs)
	}
}

// waiting says what an evaluation that could not place everything waits for and what would help, in
// the words of its explanation, if the agent can say it.
func (s *session) waiting(ctx context.Context, e *model.Evaluation) {
	if e.Status != model.EvalStatusBlocked && len(e.FailedTGAllocs) == 0 {
		return
	}
	s.waitsFor(s.client.ExplainEvaluation(ctx, e.ID))
}

// waitsFor prints the sentences of an explanation. An error means that the agent is an older
// one, or that the object has just been removed; then there is nothing to print.
func (s *session) waitsFor(x *model.Explanation, err error) {
	if err != nil {
		return
	}
	s.title("\nWhat it waits for")
	for _, line := range x.Says {
		s.printf("%s", visible(line))
	}
}
