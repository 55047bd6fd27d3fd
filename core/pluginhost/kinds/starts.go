// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"sync"
	"time"
)

// starts are the starts of tasks, and the commands in tasks, that are under way. The zero
// value has none.
type starts struct {
	mu    sync.Mutex
	begun map[string]map[*time.Time]bool // when they began, by plugin
}

// begin notes a start of a plugin's driver, until the function that it returns is called.
func (s *starts) begin(plugin string, now time.Time) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun == nil {
		s.begun = map[string]map[*time.Time]bool{}
	}
	if s.begun[plugin] == nil {
		s.begun[plugin] = map[*time.Time]bool{}
	}
	s.begun[plugin][&now] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.begun[plugin], &now)
		if len(s.begun[plugin]) == 0 {
			delete(s.begun, plugin)
		}
	}
}

// oldest returns when the oldest of a plugin's starts began; the zero time if there is none.
func (s *starts) oldest(plugin string) (out time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.begun[plugin] {
		if out.IsZero() || at.Before(out) {
			out = *at
		}
	}
	return out
}
