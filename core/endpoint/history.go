// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"

	"github.com/drover-project/drover/core/model"
)

// noHistory is what a server without history says about it.
var noHistory = model.HistoryExtent{Missing: "this server keeps no history"}

// PastDeployments returns the deployments that were removed from the state, as far as this
// server still has them.
func (e *Endpoint) PastDeployments(ctx context.Context, q model.PastQuery) ([]*model.PastDeployment, model.HistoryExtent, error) {
	if e.History == nil {
		return nil, noHistory, nil
	}
	return e.History.Deployments(ctx, q)
}

// PastEvaluations returns the evaluations that were removed from the state, as far as this
// server still has them.
func (e *Endpoint) PastEvaluations(ctx context.Context, q model.PastQuery) ([]*model.PastEvaluation, model.HistoryExtent, error) {
	if e.History == nil {
		return nil, noHistory, nil
	}
	return e.History.Evaluations(ctx, q)
}
