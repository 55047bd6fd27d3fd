// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package previous tests this release beside the previous one: plugins of the one under
// the host of the other, and data directories that servers of the one have written and
// those of the other read. It builds the other side from the history of the repository.
// It owns only tests.
package previous
