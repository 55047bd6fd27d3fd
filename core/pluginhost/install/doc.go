// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package install owns the files of a node's plugins: those in plugin_dir, the versions
// that are kept beside it for a rollback, how a release is fetched and verified, and
// what is remembered of each plugin across restarts of the agent. It starts nothing:
// which version runs is decided by package supervise.
package install
