// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package peer

import (
	"context"
	"errors"
	"time"
)

// SetReaching sets how long an attempt waits for a connection to the leader.
func (p *Peers) SetReaching(d time.Duration) { p.reaching = d }

// Lead lets here act where the leader is, which must be this server.
func (p *Peers) Lead(ctx context.Context, here func(context.Context) error) error {
	return p.lead(ctx, here, func(context.Context, leader) error { return errors.New("another server leads") })
}
