// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Introduce returns a token with which a new node may register.
func (e *Endpoint) Introduce(ctx context.Context, req *api.IntroductionRequest) (string, error) {
	if len(req.NodeName) > model.MaxNodeKey {
		return "", errdefs.InvalidArgumentf("NodeName has %d bytes; at most %d are taken", len(req.NodeName), model.MaxNodeKey)
	}
	if p := req.NodePool; p != "" && !model.IsPoolOfNode(p) {
		return "", errdefs.InvalidArgumentf("%.80q is not a node pool of a node", p)
	}
	key, err := e.activeKey(ctx)
	if err != nil {
		return "", err
	}
	return e.Tokens.Introduce(key, req.NodeName, req.NodePool, time.Duration(req.TTL), e.Now())
}
