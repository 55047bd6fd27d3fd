// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"

	"github.com/drover-project/drover/core/rpc"
)

// dataRate is how many bytes of allocs' data the node fetches from other nodes in a second.
const dataRate = 64 << 20

// dataSource is where runners get data of other nodes: the servers, which pass it on.
type dataSource struct{ agent *Agent }

// Fetch implements alloc.Data.
func (s dataSource) Fetch(ctx context.Context, allocID string, waits func(string), take func([]byte) error) error {
	select {
	case <-s.agent.session.Ready():
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.agent.cfg.Servers.AllocData(ctx, s.agent.session.Identity(), allocID, func(p *rpc.DataPiece) error {
		if p.Waits != "" {
			waits(p.Waits)
		}
		if len(p.Data) == 0 {
			return nil
		}
		return take(p.Data)
	})
}
