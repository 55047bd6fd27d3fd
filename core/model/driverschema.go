// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// DriverSchema is what a driver publishes about its tasks, kept once however many
// nodes have it. core/driverschema reads Body.
type DriverSchema struct {
	Hash   string // of Body
	Driver string
	Body   []byte
	// UnusedSince is when it was first seen that no node has it, in Unix ns; 0
	// while one does, or nobody has looked yet.
	UnusedSince int64
	CreateIndex uint64
	ModifyIndex uint64
}

// DriverUse says how many nodes of a datacenter and pool have a driver in one
// version with one schema. Hash is "" for nodes that told none; Detected says
// whether it found what it needs on them.
type DriverUse struct {
	Driver     string
	Hash       string
	Version    string // of the plugin
	Datacenter string
	NodePool   string
	Detected   bool
	Nodes      int
}
