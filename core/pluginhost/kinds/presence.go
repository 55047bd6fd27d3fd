// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Reasons for ending a process that nobody needs. They do not change what is known about
// the names of the process.
var (
	ErrAbsent  = errdefs.Unavailablef("the plugin is not kept running, since its device or daemon is not on this machine; it is started at intervals to look again")
	ErrResting = errdefs.Unavailablef("the plugin is not kept running, since nobody used it; it is being started again")
)

// quiet reports whether the end of a process for this reason leaves the knowledge about its
// names unchanged.
func quiet(reason error) bool {
	return errors.Is(reason, context.Canceled) || errors.Is(reason, ErrAbsent) || errors.Is(reason, ErrResting)
}

// presence records, from the newest fingerprints, which of a process's names exist on
// this machine.
type presence struct {
	mu     sync.Mutex
	there  map[string]bool
	ever   bool      // something has been present
	absent time.Time // since when nothing is present
}

func (p *presence) note(name string, there bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.there == nil {
		p.there = map[string]bool{}
	}
	p.there[name] = there
	p.ever = p.ever || there
	if p.none() {
		if p.absent.IsZero() {
			p.absent = time.Now()
		}
		return
	}
	p.absent = time.Time{}
}

// known reports whether there is a fingerprint for each of the given number of names.
func (p *presence) known(names int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.there) >= names && names > 0
}

// any reports whether anything is present.
func (p *presence) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.none()
}

// none reports whether no name is present. p.mu must be held.
func (p *presence) none() bool {
	for _, there := range p.there {
		if there {
			return false
		}
	}
	return true
}

// gone reports whether all names are absent: from the start, or, because a daemon may
// only be restarting, for as long as grace.
func (p *presence) gone(names int, now time.Time, grace time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.there) < names || names == 0 || !p.none() {
		return false
	}
	return !p.ever || now.Sub(p.absent) >= grace
}
