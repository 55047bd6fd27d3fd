// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package services says what an alloc offers under which names: it derives the
// registrations of its services from the alloc, its job and its node, and finds the address
// and port of a service or of a check. Nothing is counted or remembered, so a registration
// can be neither missed nor left behind by a node that died. Servers store the
// registrations, and nodes ask it where to send checks.
package services
