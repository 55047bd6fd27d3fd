// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package install owns the files of a node's plugins: the files in plugin_dir, the old versions
// that are kept elsewhere for a rollback, the fetching and verifying of releases, and the record
// of each plugin that survives restarts of the agent. It starts no process: package supervise
// decides which version runs. Only core/pluginhost and packages below it may import it.
package install
