// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// Namespace separates the jobs of teams.
type Namespace struct {
	Name                  string
	Description           string
	Quota                 string
	Capabilities          *NamespaceCapabilities
	NodePoolConfiguration *NamespaceNodePoolConfiguration
	VaultConfiguration    *NamespaceVaultConfiguration
	ConsulConfiguration   *NamespaceConsulConfiguration
	Meta                  map[string]string
	CreateIndex           uint64
	ModifyIndex           uint64
	// SchedulerConfiguration overrides the scheduler configuration of the cluster.
	SchedulerConfiguration *NamespaceSchedulerConfiguration `json:",omitempty"`
}

// NamespaceCapabilities limits drivers and network modes.
type NamespaceCapabilities struct {
	EnabledTaskDrivers   []string
	DisabledTaskDrivers  []string
	EnabledNetworkModes  []string
	DisabledNetworkModes []string
}

// NamespaceNodePoolConfiguration limits node pools.
type NamespaceNodePoolConfiguration struct {
	Default string
	Allowed []string
	Denied  []string
}

// NamespaceSchedulerConfiguration overrides, for jobs of a namespace, the scheduler
// configuration of the cluster. That of their node pool comes first.
type NamespaceSchedulerConfiguration struct {
	SchedulerAlgorithm            string              `json:",omitempty"`
	MemoryOversubscriptionEnabled *bool               `json:",omitempty"`
	PreemptionConfig              *PreemptionOverride `json:",omitempty"`
	Queue                         *QueueConfiguration `json:",omitempty"`
}

// NamespaceVaultConfiguration limits Vault clusters.
type NamespaceVaultConfiguration struct {
	Default string
	Allowed []string
	Denied  []string
}

// NamespaceConsulConfiguration limits Consul clusters.
type NamespaceConsulConfiguration struct {
	Default string
	Allowed []string
	Denied  []string
}
