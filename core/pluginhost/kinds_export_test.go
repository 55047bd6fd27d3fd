// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"fmt"

	"github.com/drover-project/drover/sdk/plugin"
)

// Choose lets tests see the choice of versions with any that a host might know.
var Choose = choose

// KindText writes kinds as one text.
func KindText(kinds []plugin.Kind) string {
	if len(kinds) == 0 {
		return ""
	}
	return fmt.Sprint(kinds)
}

// Locked is how many names of plugins are worked on or waited for.
func (h *Host) Locked() int {
	h.locks.mu.Lock()
	defer h.locks.mu.Unlock()
	return len(h.locks.byName)
}
