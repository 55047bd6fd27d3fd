// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package repotest holds the rules of the design as tests: which package may
// import which (layers.txt), who owns a third-party module, what the daemon
// links (cmd/drover/deps.txt), that every package says what it owns, that the
// pure packages stay pure and that nothing registers itself in init. Nothing
// imports it.
package repotest
