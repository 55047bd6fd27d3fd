// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package harness runs real agents for black-box tests: it builds the binaries, starts
// agents in directories or network namespaces of their own, and talks to them over
// their command line and HTTP API. Only packages below test/e2e import it.
package harness
