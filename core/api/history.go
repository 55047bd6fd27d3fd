// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// History is what a server still has of deployments and evaluations that were removed from
// the state. It is an addition of Drover: reads take it in with the parameter history.
type History interface {
	PastDeployments(ctx context.Context, q model.PastQuery) ([]*model.PastDeployment, model.HistoryExtent, error)
	PastEvaluations(ctx context.Context, q model.PastQuery) ([]*model.PastEvaluation, model.HistoryExtent, error)
}

// historyHeader says which server's history an answer includes, and how far back it goes.
const historyHeader = "X-Drover-History"

// tell adds to the answer what the history that it includes can show.
func (q *query) tell(extent model.HistoryExtent) {
	text := "server " + extent.Server
	if extent.Since.IsZero() {
		text += " has none"
	} else {
		text += " since " + extent.Since.UTC().Format(time.RFC3339)
	}
	q.header.Set(historyHeader, text)
	if extent.Missing != "" {
		note(q.r, extent.Missing)
	}
}

// times are the times at which the removed objects of an answer were removed.
type times[T any] map[*T]time.Time

// also yields the items and then more of them.
func also[T any](items iter.Seq[T], more []T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for it := range items {
			if !yield(it) {
				return
			}
		}
		for _, it := range more {
			if !yield(it) {
				return
			}
		}
	}
}

// pastDeployments returns the removed deployments that a query selects. What the state has
// is left out: a snapshot may have brought it back.
func (q *query) pastDeployments(v View, of model.PastQuery) ([]*model.Deployment, times[model.Deployment], error) {
	past, extent, err := q.s.backend.PastDeployments(q.r.Context(), of)
	if err != nil {
		return nil, nil, err
	}
	q.tell(extent)
	at := times[model.Deployment]{}
	var list []*model.Deployment
	for _, p := range past {
		if v.DeploymentByID(p.ID) == nil {
			at[p.Deployment] = p.CollectedAt
			list = append(list, p.Deployment)
		}
	}
	return list, at, nil
}

// pastEvals is pastDeployments for evaluations.
func (q *query) pastEvals(v View, of model.PastQuery) ([]*model.Evaluation, times[model.Evaluation], error) {
	past, extent, err := q.s.backend.PastEvaluations(q.r.Context(), of)
	if err != nil {
		return nil, nil, err
	}
	q.tell(extent)
	at := times[model.Evaluation]{}
	var list []*model.Evaluation
	for _, p := range past {
		if v.EvalByID(p.ID) == nil {
			at[p.Evaluation] = p.CollectedAt
			list = append(list, p.Evaluation)
		}
	}
	return list, at, nil
}

// without notes on the answer that it has nothing of the history, because that cannot be read;
// what is in the state is shown all the same. It returns false if the request must fail: another
// server can answer it, or its client is gone.
func (q *query) without(err error) bool {
	if errdefs.IsUnavailable(err) || q.r.Context().Err() != nil {
		return false
	}
	note(q.r, "what was collected is not shown, because the history of this server cannot be read: "+err.Error())
	return true
}

// listDeploymentsEver is listDeployments with history.
func listDeploymentsEver(v View, q *query, p page[*model.Deployment]) result {
	past, at, err := q.pastDeployments(v, model.PastQuery{Namespace: q.stateNamespace(), Prefix: strings.ToLower(q.prefix())})
	if err != nil && !q.without(err) {
		return failed(err)
	}
	p.items = also(p.items, past)
	return listOf(q, p, func(d *model.Deployment) *model.PastDeployment {
		return &model.PastDeployment{Deployment: d, CollectedAt: at[d]}
	})
}

// listEvalsEver is listEvals with history.
func listEvalsEver(v View, q *query, p page[*model.Evaluation]) result {
	past, at, err := q.pastEvals(v, model.PastQuery{Namespace: q.stateNamespace(), JobID: paramsOf(q.r).get("job"), Prefix: strings.ToLower(q.prefix())})
	if err != nil && !q.without(err) {
		return failed(err)
	}
	p.items = also(p.items, past)
	return listOf(q, p, func(e *model.Evaluation) *model.PastEvaluation {
		return &model.PastEvaluation{Evaluation: e, CollectedAt: at[e]}
	})
}

// everDeployment reads the deployment of the path, with history also a removed one.
func everDeployment(v View, q *query) (*model.PastDeployment, error) {
	d, err := theDeployment(v, q)
	if err == nil || !q.flag("history") {
		return &model.PastDeployment{Deployment: d}, err
	}
	past, at, failed := q.pastDeployments(v, model.PastQuery{Prefix: strings.ToLower(q.r.PathValue("id"))})
	if failed != nil {
		return nil, failed
	}
	if len(past) == 0 {
		return nil, err
	}
	return &model.PastDeployment{Deployment: past[0], CollectedAt: at[past[0]]}, nil
}

// everEval reads the evaluation of the path, with history also a removed one.
func everEval(v View, q *query) (*model.PastEvaluation, error) {
	e, err := theEval(v, q)
	if err == nil || !q.flag("history") {
		return &model.PastEvaluation{Evaluation: e}, err
	}
	past, at, failed := q.pastEvals(v, model.PastQuery{Prefix: strings.ToLower(q.r.PathValue("id"))})
	if failed != nil {
		return nil, failed
	}
	if len(past) == 0 {
		return nil, err
	}
	return &model.PastEvaluation{Evaluation: past[0], CollectedAt: at[past[0]]}, nil
}

func everDeploymentIndex(d *model.PastDeployment) uint64 { return d.ModifyIndex }

func everEvalIndex(e *model.PastEvaluation) uint64 { return e.ModifyIndex }

// showEverDeployment shows a deployment of the state as the reference does.
func showEverDeployment(_ View, _ *query, d *model.PastDeployment) result {
	if d.CollectedAt.IsZero() {
		return shown(d.Deployment)
	}
	return shown(d)
}

func showEverEval(v View, q *query, e *model.PastEvaluation) result {
	out := showEval(v, q, e.Evaluation)
	if shown, ok := out.value.(*model.Evaluation); ok && !e.CollectedAt.IsZero() {
		out.value = &model.PastEvaluation{Evaluation: shown, CollectedAt: e.CollectedAt}
	}
	return out
}
