// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// allFlag declares -all of lists with history.
func allFlag(fs *flag.FlagSet, what string) *bool {
	return fs.Bool("all", false, "Also lists "+what+" that were collected, as far as the history of the server that answers still has them.")
}

// extent prints which history was searched.
func (s *session) extent(meta client.Meta) {
	if meta.History != "" {
		s.printf("\nHistory: %s", visible(meta.History))
	}
}

// everDeployment finds a deployment of the state, or else of the history.
func (s *session) everDeployment(ctx context.Context, prefix string) (*model.PastDeployment, error) {
	d, err := s.findDeployment(ctx, prefix)
	if !errdefs.IsNotFound(err) {
		return &model.PastDeployment{Deployment: d}, err
	}
	id, _ := wholeID(ctx, "deployment", prefix, func(ctx context.Context, q *client.Query) ([]candidate, error) {
		list, _, err := s.anyNamespace().PastDeployments(ctx, q)
		return candidatesOf(list, func(d *model.PastDeployment) candidate { return candidate{d.ID, d.JobID + ", " + d.Status} }), err
	})
	if id == "" {
		return nil, err
	}
	past, _, failed := s.client.PastDeployment(ctx, id, nil)
	if failed != nil {
		return nil, err // what the state says is the better answer
	}
	return past, nil
}

// everEval finds an evaluation of the state, or else of the history.
func (s *session) everEval(ctx context.Context, prefix string) (*model.PastEvaluation, error) {
	e, err := s.findEval(ctx, prefix)
	if !errdefs.IsNotFound(err) {
		return &model.PastEvaluation{Evaluation: e}, err
	}
	id, _ := wholeID(ctx, "evaluation", prefix, func(ctx context.Context, q *client.Query) ([]candidate, error) {
		list, _, err := s.anyNamespace().PastEvaluations(ctx, q)
		return candidatesOf(list, func(e *model.PastEvaluation) candidate { return candidate{e.ID, e.JobID + ", " + e.Status} }), err
	})
	if id == "" {
		return nil, err
	}
	past, _, failed := s.client.PastEvaluation(ctx, id, true, nil)
	if failed != nil {
		return nil, err
	}
	return past, nil
}

// pastIDs returns the ids of collected objects that begin with the typed text, for
// completion.
func pastIDs(ctx context.Context, agent *client.Client, kind, typed string) (out []string) {
	if len(typed) < 2 || len(typed)%2 == 1 {
		return nil // servers accept an even number of digits
	}
	q := &client.Query{Prefix: typed}
	switch kind {
	case "deployment":
		list, _, _ := agent.PastDeployments(ctx, q) // an error has nowhere to be printed
		for _, d := range list {
			out = append(out, d.ID)
		}
	case "evals":
		list, _, _ := agent.PastEvaluations(ctx, q)
		for _, e := range list {
			out = append(out, e.ID)
		}
	}
	return out
}
