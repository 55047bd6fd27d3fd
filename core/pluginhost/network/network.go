// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package network is the core's interface to plugins that make networks of allocs. It
// owns that interface and the adapter for the contract (v1.go). It does not own processes
// (core/pluginhost does), nor when a network is made and removed (core/agent/alloc does).
package network

import (
	v1 "github.com/drover-project/drover/sdk/network/v1"
)

// Backend is a network plugin in one process. Its methods have the semantics of
// sdk/network/v1.
type Backend = v1.Network

// The types of the newest contract.
type (
	Info        = v1.Info
	Fingerprint = v1.Fingerprint
	Request     = v1.Request
	Attachment  = v1.Attachment
	Address     = v1.Address
	Port        = v1.Port
	DNS         = v1.DNS
)

// KnownFeatures returns the optional abilities of network plugins on which the host acts.
func KnownFeatures() []v1.Feature { return v1.KnownFeatures() }
