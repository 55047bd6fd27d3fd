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

// takeFreed starts another process of the plugin beside the current one if another
// plugin has given up a name that this one serves, too: names are claimed when a
// process starts.
func (s *Plugin) takeFreed(ctx context.Context, now *live) *live {
	if now == nil || s.Mode() != On || time.Since(s.freedAt) < freedPause || !s.shared.Kinds.Freed(s.name) {
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
