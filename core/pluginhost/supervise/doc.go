// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package supervise keeps one plugin running: it starts its process, starts it again
// after a failure, with back-off and crash loops, ends it while nobody needs it, and
// replaces it by another version, which is tried beside the old one and rolled back if
// it does not work. It does not know which plugins there are (package pluginhost).
package supervise
