// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package driver is version 1 of the contract between Drover and a task driver
// plugin, and the manual of its author. It owns the interface Driver, its types
// and their wire form (hidden). It does not own how a plugin process is found,
// started and watched: that is core/pluginhost. Plugins import it, and so does
// core/pluginhost/driver, which alone may in core.
package driver
