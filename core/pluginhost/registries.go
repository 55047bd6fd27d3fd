// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"

	"github.com/drover-project/drover/core/pluginhost/registry"
)

// Registries returns the newest fingerprint of every registry of services that has a config,
// by name, and a channel that is closed when they have changed, as Fingerprints does.
func (h *Host) Registries() ([]RegistryFingerprint, <-chan struct{}) {
	return h.kinds.Registries.Fingerprints()
}

// SyncServices makes a cluster of a registry have exactly the services of the request.
// NotFound: no plugin serves the registry, or it has no such cluster. Unavailable: its
// plugin, or the cluster, is away.
func (h *Host) SyncServices(ctx context.Context, registryName string, r registry.SyncRequest) (*registry.SyncResult, error) {
	return h.kinds.Registries.Sync(ctx, registryName, r)
}

// LoginAt returns a credential of a workload for a cluster of a registry; it fails as
// SyncServices does. Unimplemented: the registry knows no logins.
func (h *Host) LoginAt(ctx context.Context, registryName string, r registry.LoginRequest) (*registry.Login, error) {
	return h.kinds.Registries.Login(ctx, registryName, r)
}

// LogoutFrom ends a credential.
func (h *Host) LogoutFrom(ctx context.Context, registryName, cluster string, c registry.Credential) error {
	return h.kinds.Registries.Logout(ctx, registryName, cluster, c)
}

// QueryRegistry reads from a cluster of a registry; it fails as SyncServices does.
// Unimplemented: the registry answers no queries.
func (h *Host) QueryRegistry(ctx context.Context, registryName string, q registry.Query) (*registry.Answer, error) {
	return h.kinds.Registries.Query(ctx, registryName, q)
}
