// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"

	"github.com/drover-project/drover/core/model"
)

func evalPage(v View, q *query) page[*model.Evaluation] {
	p := paramsOf(q.r)
	job, status, prefix := p.get("job"), p.get("status"), q.prefix()
	return page[*model.Evaluation]{
		items: v.Evals(),
		keep: func(e *model.Evaluation) bool {
			return q.inNamespace(e.Namespace) && hasPrefixFold(e.ID, prefix) &&
				(job == "" || e.JobID == job) && (status == "" || e.Status == status)
		},
		order:  func(e *model.Evaluation) order { return order{e.CreateIndex, e.ID} },
		byTime: true,
	}
}

func listEvals(v View, q *query) result {
	if err := isPrefixOfID(q.prefix()); err != nil {
		return failed(err)
	}
	if q.flag("history") {
		return listEvalsEver(v, q, evalPage(v, q))
	}
	return listOf(q, evalPage(v, q), func(e *model.Evaluation) *model.Evaluation { return e })
}

func countEvals(v View, q *query) result {
	pg, err := q.paging()
	if err != nil {
		return failed(err)
	}
	items, _, err := evalPage(v, q).run(q.r.Context(), paging{filter: pg.filter})
	out := &struct {
		Count int
		QueryMeta
	}{len(items), QueryMeta{Index: q.index, KnownLeader: true}}
	return result{value: out, err: err}
}

func theEval(v View, q *query) (*model.Evaluation, error) {
	return orMissing(v.EvalByID(q.r.PathValue("id")), "eval not found")
}

func evalIndex(e *model.Evaluation) uint64 { return e.ModifyIndex }

func showEval(v View, q *query, e *model.Evaluation) result {
	if q.flag("related") {
		e = e.Copy()
		e.RelatedEvals = relatedEvals(v, e)
	}
	return shown(e)
}

// relatedEvals collects the evaluations that led to root and those that followed from
// it.
func relatedEvals(v View, root *model.Evaluation) []*model.EvaluationStub {
	var out []*model.EvaluationStub
	seen := map[string]bool{"": true, root.ID: true}
	todo := []*model.Evaluation{root}
	for len(todo) > 0 {
		e := todo[0]
		todo = todo[1:]
		for _, id := range []string{e.PreviousEval, e.NextEval, e.BlockedEval} {
			if seen[id] {
				continue
			}
			seen[id] = true
			if next := v.EvalByID(id); next != nil {
				out = append(out, evalStub(next))
				todo = append(todo, next)
			}
		}
	}
	return out
}

func evalStub(e *model.Evaluation) *model.EvaluationStub {
	return &model.EvaluationStub{
		ID: e.ID, Namespace: e.Namespace, Priority: e.Priority, Type: e.Type, TriggeredBy: e.TriggeredBy,
		JobID: e.JobID, NodeID: e.NodeID, DeploymentID: e.DeploymentID, Status: e.Status,
		StatusDescription: e.StatusDescription, WaitUntil: e.WaitUntil, NextEval: e.NextEval,
		PreviousEval: e.PreviousEval, BlockedEval: e.BlockedEval,
		CreateIndex: e.CreateIndex, ModifyIndex: e.ModifyIndex, CreateTime: e.CreateTime, ModifyTime: e.ModifyTime,
	}
}

func (s *Server) deleteEvals(w http.ResponseWriter, r *http.Request) (any, error) {
	var req struct {
		EvalIDs []string
		Filter  string
	}
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	switch {
	case len(req.EvalIDs) > 0 && req.Filter != "":
		return nil, fail(http.StatusBadRequest, "evals cannot be deleted by both ID and filter")
	case len(req.EvalIDs) == 0 && req.Filter == "":
		return nil, fail(http.StatusBadRequest, "request does not include any evaluation IDs")
	}
	ids := req.EvalIDs
	if req.Filter != "" {
		q := &query{r: r, namespace: namespaceOf(r)}
		evals, _, err := evalPage(s.backend.View(), q).run(r.Context(), paging{filter: req.Filter})
		if err != nil {
			return nil, err
		}
		for _, e := range evals {
			ids = append(ids, e.ID)
		}
	}
	resp, err := s.backend.DeleteEvals(r.Context(), ids)
	if err != nil {
		return nil, err
	}
	setIndex(w, resp.Index)
	return resp, nil
}
