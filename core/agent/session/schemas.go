// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package session

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// schemaTimeout limits the sending of schemas, which delays heartbeats.
const schemaTimeout = 2 * time.Second

// sendSchemas sends the schemas that a lease requests. If it fails, a later lease
// requests them again.
func (s *Session) sendSchemas(ctx context.Context, lease rpc.Lease) {
	if len(lease.Missing) == 0 {
		return
	}
	for _, data := range s.parts.Schemas.Wanted(lease.Missing, time.Now()) {
		// Send them one by one, so that a refused one does not prevent the others.
		bodies := [][]byte{data}
		call, cancel := context.WithTimeout(ctx, schemaTimeout)
		err := s.cfg.Servers.PutDriverSchemas(call, s.Identity(), bodies)
		cancel()
		s.parts.Schemas.Sent(bodies, err, time.Now())
		if err != nil {
			s.cfg.Logger.Warn("the servers did not take a driver's schema; until they have it jobs are not checked against it", "error", err)
			if !errdefs.IsInvalidArgument(err) {
				return
			}
		}
	}
}
