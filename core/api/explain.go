// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"net/http"

	"github.com/drover-project/drover/core/model"
)

// Explain are the requests for the reasons of what the state shows.
type Explain interface {
	ExplainJob(ctx context.Context, ns, id string) (*model.Explanation, error)
	ExplainEval(ctx context.Context, id string) (*model.Explanation, error)
	ExplainAlloc(ctx context.Context, id string) (*model.Explanation, error)
	ExplainNode(ctx context.Context, id string) (*model.Explanation, error)
	ExplainDeployment(ctx context.Context, id string) (*model.Explanation, error)
}

func (s *Server) explainJob(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.backend.ExplainJob(r.Context(), namespaceOf(r), r.PathValue("id"))
}

// explained handles the request for the explanation of an object that its id names.
func explained(ask func(Explain, context.Context, string) (*model.Explanation, error)) handler {
	return func(s *Server, _ http.ResponseWriter, r *http.Request) (any, error) {
		return ask(s.backend, r.Context(), r.PathValue("id"))
	}
}

// explainRoutes are additions of Drover to the API.
var explainRoutes = []row{
	{get, jobPath + "/explain", "read-job", nothing, act((*Server).explainJob)},
	{get, "/v1/allocation/{id}/explain", "read-job", nothing, act(explained(Explain.ExplainAlloc))},
	{get, "/v1/evaluation/{id}/explain", "read-job", nothing, act(explained(Explain.ExplainEval))},
	{get, "/v1/deployment/explain/{id}", "read-job", nothing, act(explained(Explain.ExplainDeployment))},
	{get, "/v1/node/{id}/explain", "node:read,read-job", nothing, act(explained(Explain.ExplainNode))},
}
