// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervise

import (
	"context"
	"time"
)

// freedPause is the least time between two attempts to claim names that have become
// free.
const freedPause = time.Minute

// mayTakeFreed reports whether a name is free now that the plugin did not get.
func (s *Plugin) mayTakeFreed() bool {
	return s.Mode() == On && time.Since(s.freedAt) >= freedPause && s.shared.Kinds.Freed(s.name)
}

// startFreed reports whether a plugin that failed, since others had all its names, is to be
// started now, because one of them is free.
func (s *Plugin) startFreed(now *live) bool {
	st := s.snapshot().State
	if now != nil || st != StateBackingOff && st != StateCrashLoop || !s.mayTakeFreed() {
		return false
	}
	s.freedAt = time.Now()
	return true
}

// takeFreed starts another process of the plugin beside the current one if another
// plugin has given up a name that this one serves, too: names are claimed when a
// process starts.
func (s *Plugin) takeFreed(ctx context.Context, now *live) *live {
	if now == nil || !s.mayTakeFreed() {
		return now
	}
	s.freedAt = time.Now()
	f := s.File()
	digest, err := s.shared.Versions.Digest(f.Binary())
	if err == nil {
		now, err = s.upgrade(ctx, now, candidate{file: f, digest: digest, config: s.shared.Catalog.Get(s.name).Config})
	}
	if err != nil {
		s.shared.Logger.Warn("a name that another plugin gave up could not be taken over yet", "plugin", s.name, "error", err)
	}
	return now
}
