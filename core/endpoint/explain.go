// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"

	"github.com/drover-project/drover/core/explain"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// explainer returns what explains the newest state.
func (e *Endpoint) explainer() explain.Of {
	return explain.Of{View: e.Store.View(), Now: e.Now(), IDs: ids{}}
}

// ExplainJob explains what a job waits for and where more of it could run.
func (e *Endpoint) ExplainJob(_ context.Context, ns, id string) (*model.Explanation, error) {
	x := e.explainer()
	job := x.View.JobByID(ns, id)
	if job == nil {
		return nil, errdefs.NotFoundf("job not found")
	}
	return x.Job(job), nil
}

// ExplainEval explains what an evaluation waits for.
func (e *Endpoint) ExplainEval(_ context.Context, id string) (*model.Explanation, error) {
	x := e.explainer()
	eval := x.View.EvalByID(id)
	if eval == nil {
		return nil, errdefs.NotFoundf("eval not found")
	}
	return x.Eval(eval), nil
}

// ExplainAlloc explains why an alloc is where it is.
func (e *Endpoint) ExplainAlloc(_ context.Context, id string) (*model.Explanation, error) {
	x := e.explainer()
	a := x.View.AllocByID(id)
	if a == nil {
		return nil, errdefs.NotFoundf("alloc not found")
	}
	return x.Alloc(a), nil
}

// ExplainNode explains what a node has left.
func (e *Endpoint) ExplainNode(_ context.Context, id string) (*model.Explanation, error) {
	x := e.explainer()
	n := x.View.NodeByID(id)
	if n == nil {
		return nil, errdefs.NotFoundf("node not found")
	}
	return x.Node(n), nil
}

// ExplainDeployment explains what a deployment waits for.
func (e *Endpoint) ExplainDeployment(_ context.Context, id string) (*model.Explanation, error) {
	x := e.explainer()
	d := x.View.DeploymentByID(id)
	if d == nil {
		return nil, errdefs.NotFoundf("deployment not found")
	}
	return x.Deployment(d), nil
}
