// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package netspace owns network namespaces that are mounted at paths, so that they outlive
// every process: it makes, finds and removes them. Network plugins import it. On systems
// other than Linux it makes none.
package netspace
