// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"time"

	"github.com/drover-project/drover/core/agent/storage"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
)

// openStorage makes the keeper of storage plugins.
func (a *Agent) openStorage(ctx context.Context) error {
	dir, err := filepath.Abs(filepath.Join(a.cfg.DataDir, "csi"))
	if err != nil {
		return fmt.Errorf("find the directory of volumes: %w", err)
	}
	a.storage, err = storage.Open(ctx, storage.Config{
		Dir: dir, Plugins: a.plugins, Store: a.store, Claim: a.claimVolume, Now: time.Now, Logger: a.cfg.Logger.Named("storage"),
		Lives: func(id string) bool { return a.allocs.Lives(id) }, Uses: func(id string) bool { return a.allocs.UsesVolumes(id) },
	})
	return err
}

// claimVolume asks the servers for a volume of an alloc, once there is a session.
func (a *Agent) claimVolume(ctx context.Context, q rpc.VolumeQuery) (rpc.VolumeGrant, error) {
	select {
	case <-a.session.Ready():
	case <-ctx.Done():
		return rpc.VolumeGrant{}, ctx.Err()
	}
	return a.cfg.Servers.ClaimVolume(ctx, a.session.Identity(), q)
}

// addStorage writes the node's storage plugins into the node.
func (a *Agent) addStorage(n *model.Node) {
	n.CSIControllerPlugins, n.CSINodePlugins, _ = a.storage.Offered()
}

func sameStorage(a, b *model.Node) bool {
	return reflect.DeepEqual(a.CSIControllerPlugins, b.CSIControllerPlugins) && reflect.DeepEqual(a.CSINodePlugins, b.CSINodePlugins)
}
