// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package osthread runs functions that change what Linux keeps for each thread: namespaces,
// cgroups, capabilities, root directory. It knows nothing of what they change. Whoever enters
// the namespaces or cgroups of a task imports it.
package osthread
