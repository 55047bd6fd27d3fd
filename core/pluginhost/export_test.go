// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

// Locked is how many names of plugins are worked on or waited for.
func (h *Host) Locked() int {
	h.locks.mu.Lock()
	defer h.locks.mu.Unlock()
	return len(h.locks.byName)
}

// SocketDir is the directory of the sockets of the plugins' processes.
func (h *Host) SocketDir() string { return h.launcher.SocketDir() }
