// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package compat drives a real drover agent with the Go client that users of
// the reference already have (github.com/hashicorp/nomad/api, MPL-2.0): what
// works there must work here, unchanged. It is a module of its own so that this
// client is no dependency of Drover. Nobody imports it. Run it with
//
//	make build && (cd test/compat && go test ./...)
//
// DROVER_BIN names another binary than bin/drover; without one the tests skip.
package compat
