// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"net/url"

	"github.com/drover-project/drover/core/model"
)

// ExplainJob explains what a job waits for and where more of it could run.
func (c *Client) ExplainJob(ctx context.Context, id string) (*model.Explanation, error) {
	return c.explain(ctx, jobPath(id, "/explain"))
}

// ExplainAllocation explains why an alloc is where it is, and what becomes of it.
func (c *Client) ExplainAllocation(ctx context.Context, id string) (*model.Explanation, error) {
	return c.explain(ctx, "/v1/allocation/"+url.PathEscape(id)+"/explain")
}

// ExplainEvaluation explains what an eval waits for.
func (c *Client) ExplainEvaluation(ctx context.Context, id string) (*model.Explanation, error) {
	return c.explain(ctx, "/v1/evaluation/"+url.PathEscape(id)+"/explain")
}

// ExplainDeployment explains what a deployment waits for.
func (c *Client) ExplainDeployment(ctx context.Context, id string) (*model.Explanation, error) {
	return c.explain(ctx, "/v1/deployment/explain/"+url.PathEscape(id))
}

// ExplainNode explains what a node has left.
func (c *Client) ExplainNode(ctx context.Context, id string) (*model.Explanation, error) {
	return c.explain(ctx, "/v1/node/"+url.PathEscape(id)+"/explain")
}

func (c *Client) explain(ctx context.Context, path string) (*model.Explanation, error) {
	out, _, err := get[*model.Explanation](ctx, c, path, nil)
	return out, err
}
