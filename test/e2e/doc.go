// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package e2e contains the black-box tests: they build the real binaries, run real
// agents with real plugins and tasks, and kill them. They use an agent only through
// its command line and its HTTP API. Nobody imports it.
package e2e
