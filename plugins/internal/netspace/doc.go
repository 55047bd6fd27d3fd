// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package netspace makes, finds and removes network namespaces that are mounted at paths, so
// that they stay when no process uses them. Only network plugins may import it. It works only
// on Linux: elsewhere it makes no namespaces.
package netspace
