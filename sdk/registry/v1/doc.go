// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package registry is version 1 of the contract between Drover and plugins that register
// services elsewhere, such as in Consul, and the manual for their authors. It owns the
// interface Registry, its types and their wire form (hidden). It does not own the discovery,
// start and supervision of plugin processes: that is core/pluginhost. Plugins import it; in
// core, only core/pluginhost/registry may.
//
// # What a registry does
//
// Its name is the provider that services of jobs name. It reaches one or more clusters
// (Fingerprint); one of them is called DefaultCluster. For each cluster the host says which services the
// node has (Sync): all of them, each time. The registry makes the cluster have these and no
// others of the node. It compares with what the cluster has, and not with an earlier call:
// the cluster may have lost everything, and people may have changed it.
//
// The host calls Sync when anything changes, and at intervals though nothing has. So a
// registry keeps no state and repeats nothing by itself.
//
// # What belongs to a node
//
// Several nodes, and programs that know nothing of Drover, can register services in one
// place. So a registry marks what it registers with SyncRequest.Owner, and removes only what
// bears that mark.
//
// # Checks
//
// The registry runs the checks of services, so that they go on while the node's agent is
// away. Checks of type CheckReport are run by the node: Sync has their last results, and a
// result that is not repeated within its TTL counts as critical.
//
// # Credentials of workloads
//
// A registry acts with the rights of the node's own configuration. With the feature "login"
// workloads have rights of their own: the host shows the cluster a signed token of a service
// or task (Login), keeps the credential that it gets, also when its own process ends, passes
// it with Sync and Query, and ends it (Logout). The registry keeps none.
//
// # The life of the process
//
// The process may be ended, killed or replaced at any time, also within Sync. A new process
// starts without any state: the host calls Plugins, SetConfig and then Fingerprint. Streams
// stay open until their ctx ends. Without a config the host asks only for Info.
//
// # Errors
//
// Errors carry a class of sdk/errdefs; see each method.
package registry
