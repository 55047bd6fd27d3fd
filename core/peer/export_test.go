// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package peer

import "time"

// SetReaching sets how long an attempt waits for a connection to the leader.
func (p *Peers) SetReaching(d time.Duration) { p.reaching = d }
