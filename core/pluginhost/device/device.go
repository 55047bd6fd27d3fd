// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package device is the core's interface to device plugins. It owns that interface and
// the adapters for each protocol: v1.go for our contract, nomad.go for plugins built
// for Nomad. It does not own processes (core/pluginhost does), nor the assignment of
// devices, which is derived from the allocs. core/pluginhost imports it.
package device

import (
	v1 "github.com/drover-project/drover/sdk/device/v1"
)

// Backend is a device plugin in one process. Its methods have the semantics of
// sdk/device/v1.
type Backend = v1.Device

// Feature is an optional ability of a device plugin.
type Feature = v1.Feature

// Has reports whether a backend has an optional ability. The host asks it before it
// makes a call of that ability.
func Has(b Backend, f Feature) bool { return v1.Has(b, f) }

// KnownFeatures returns the optional abilities of device plugins on which the host acts.
func KnownFeatures() []Feature { return v1.KnownFeatures() }

// The optional abilities.
const (
	FeatureReserveForTask = v1.FeatureReserveForTask
	FeatureRelease        = v1.FeatureRelease
)

// Set is some instances of a group.
type Set struct {
	Vendor, Type, Name string
	IDs                []string
}

// Group returns the name of the group of the set.
func (s Set) Group() string { return s.Vendor + "/" + s.Type + "/" + s.Name }

// The types of the newest contract.
type (
	TaskReserver = v1.TaskReserver
	Releaser     = v1.Releaser
	Holder       = v1.Holder
	Request      = v1.Request

	Info        = v1.Info
	Fingerprint = v1.Fingerprint
	Group       = v1.Group
	Instance    = v1.Instance
	Attribute   = v1.Attribute
	Reservation = v1.Reservation
	Mount       = v1.Mount
	Node        = v1.Node
	GroupStats  = v1.GroupStats
	Stats       = v1.Stats
	Value       = v1.Value
)
