// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "time"

// Node pools that always exist.
const (
	NodePoolAll     = "all"
	NodePoolDefault = "default"
)

// NodePool groups nodes.
type NodePool struct {
	Name                   string
	Description            string
	Meta                   map[string]string
	SchedulerConfiguration *NodePoolSchedulerConfiguration
	NodeIdentityTTL        time.Duration
	CreateIndex            uint64
	ModifyIndex            uint64
}

// NodePoolSchedulerConfiguration overrides, for jobs of a pool, the scheduler configuration
// of their namespace and of the cluster: who runs a pool knows its machines.
type NodePoolSchedulerConfiguration struct {
	SchedulerAlgorithm            string
	MemoryOversubscriptionEnabled *bool
	PreemptionConfig              *PreemptionOverride `json:",omitempty"`
	Queue                         *QueueConfiguration `json:",omitempty"`
}
