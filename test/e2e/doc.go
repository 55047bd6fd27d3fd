// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package e2e holds the black-box tests: they build the real binaries, run real
// agents with real plugins and tasks, and kill them. They speak to an agent only
// over its command line and its HTTP API. Nothing imports it.
package e2e
