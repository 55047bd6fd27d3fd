// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin

import "time"

// Hurry lets a plugin repeat calls soon.
func (p *Plugin) Hurry() { p.pace = pace{first: time.Millisecond, last: 20 * time.Millisecond} }

// Die ends the calls of a plugin as the death of its process does.
func (p *Plugin) Die() { p.conn.close() }

// Lanes returns the number of volumes for which calls are in progress.
func (p *Plugin) Lanes() int {
	p.lanes.mu.Lock()
	defer p.lanes.mu.Unlock()
	return len(p.lanes.busy)
}

// Words lets tests see what is left of a driver's text.
var Words = words
