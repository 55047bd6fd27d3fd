// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pilot

import "github.com/drover-project/drover/core/membership"

// Yield is yield.
var Yield = yield

// KnockAll is knockAll.
func (p *Pilot) KnockAll(servers []membership.Member) []string { return p.knockAll(servers) }
