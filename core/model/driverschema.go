// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// DriverSchema is the schema and capabilities that a driver publishes, stored once
// regardless of the number of nodes. core/driverschema decodes Body.
type DriverSchema struct {
	Hash   string // hash of Body
	Driver string
	Body   []byte
	// UnusedSince is the time, in Unix ns, at which it was first observed that no node
	// uses the schema; 0 while a node does, or if nobody has checked yet.
	UnusedSince int64
	CreateIndex uint64
	ModifyIndex uint64
}

// DriverUse is the number of nodes of a datacenter and pool that have a driver in one
// version with one schema. Hash is "" for nodes that reported no schema. Detected says
// whether the driver found what it needs on them.
type DriverUse struct {
	Driver     string
	Hash       string
	Version    string // version of the plugin
	Datacenter string
	NodePool   string
	Detected   bool
	Nodes      int
}
