// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package services says which services an alloc offers, and where: it derives the
// registrations of services from the alloc, its job and its node, and finds the address and
// port of a service or of a check. It remembers nothing, so a registration can never be lost,
// and none can stay behind when a node dies. It is pure.
//
// core/state stores the registrations. Everything in core may import the package, such as
// core/agent/alloc, which asks it where to send checks.
package services
