// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package previous tests plugins of the previous release under this host, and plugins of
// this SDK under the host of the previous release. It builds the other side from the
// history of the repository. It owns only tests.
package previous
