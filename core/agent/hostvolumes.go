// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"reflect"

	"github.com/drover-project/drover/core/agent/hostvolumes"
	"github.com/drover-project/drover/core/model"
)

// openHostVolumes reads which dynamic host volumes the node has.
func (a *Agent) openHostVolumes(ctx context.Context) (err error) {
	a.volumes, err = hostvolumes.Open(ctx, hostvolumes.Config{
		Dir: cmp.Or(a.cfg.HostVolumesDir, filepath.Join(a.cfg.DataDir, "host_volumes")), PluginDir: cmp.Or(a.cfg.HostVolumePluginDir, filepath.Join(a.cfg.DataDir, "host_volume_plugins")),
		NodeID: a.nodeID, NodePool: cmp.Or(a.cfg.Node.NodePool, model.NodePoolDefault),
		Static: func(name string) bool { return a.cfg.Node.HostVolumes[name] != nil },
		Store:  a.store, Logger: a.cfg.Logger.Named("hostvolumes"),
	})
	return err
}

// addHostVolumes writes the dynamic host volumes, and the plugins that make them, into the
// node.
func (a *Agent) addHostVolumes(n *model.Node) {
	offered, _ := a.volumes.Offered()
	n.HostVolumes = maps.Clone(n.HostVolumes) // it is the configuration's
	maps.Copy(n.HostVolumes, offered)
	for name, version := range a.volumes.Versions() {
		n.Attributes["plugins.host_volume."+name+".version"] = version
	}
}

func sameHostVolumes(a, b *model.Node) bool { return reflect.DeepEqual(a.HostVolumes, b.HostVolumes) }
