// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package supervise keeps one plugin running. It starts the plugin's process, starts it again
// after a failure, waits longer after each failure in a row, and ends the process while nobody
// needs it. To replace the plugin by another version, it tries the new one beside the old one,
// and goes back to the old one if the new one does not work. It does not know which plugins
// there are: core/pluginhost does, and only it may import this package.
package supervise
