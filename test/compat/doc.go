// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package compat tests a real drover agent with the Go client of the reference
// (github.com/hashicorp/nomad/api, MPL-2.0): what works there must work here,
// unchanged. It is a separate module, so that this client is not a dependency of
// Drover. Nobody imports it. Run it with
//
//	make build && (cd test/compat && go test ./...)
//
// DROVER_BIN sets the path of the binary (default bin/drover); if there is none the
// tests skip.
package compat
