// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"sync"
	"time"
)

// addressesFor is how long the servers' addresses are taken as they were. To ask for them
// takes longer than the rest of a heartbeat.
const addressesFor = time.Second

// addresses remembers the servers' addresses.
type addresses struct {
	mu    sync.Mutex
	asked time.Time
	list  []string
}

// at returns the addresses, which nobody may change. It asks for them if they are too old.
func (a *addresses) at(now time.Time, ask func() []string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if age := now.Sub(a.asked); age < 0 || age >= addressesFor {
		a.list, a.asked = ask(), now
	}
	return a.list
}
