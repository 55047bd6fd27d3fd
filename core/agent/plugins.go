// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
)

// pluginSettle is how long a change of plugins waits for further ones before
// servers hear of it.
const pluginSettle = 500 * time.Millisecond

// The node registers again because of its plugins registerBurst times in a row,
// and then once every registerPause.
const (
	registerPause = 5 * time.Second
	registerBurst = 20
)

func pluginsByName(plugins []pluginhost.PluginStatus) map[string]pluginhost.PluginStatus {
	out := make(map[string]pluginhost.PluginStatus, len(plugins))
	for _, p := range plugins {
		out[p.Name] = p
	}
	return out
}

// awaitChange returns when the node must be described anew: at once after a change that
// affects placement, and with a delay after a change of plugins, because one failure of
// a plugin causes many changes. It returns false when ctx has ended.
func awaitChange(ctx context.Context, drivers, devices, networks, plugins <-chan struct{}) bool {
	select {
	case <-drivers:
	case <-devices:
	case <-networks:
	case <-plugins:
		settled := time.NewTimer(pluginSettle)
		defer settled.Stop()
		select {
		case <-drivers:
		case <-devices:
		case <-networks:
		case <-settled.C:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// maxPluginError is the most bytes of why a plugin does not run that servers are told.
const maxPluginError = 4096

// addPlugins writes the plugins into the node.
func addPlugins(n *model.Node, plugins []pluginhost.PluginStatus) {
	n.Plugins = nil
	for _, p := range plugins {
		info := &model.NodePlugin{
			Version: p.Version, Digest: p.Digest, State: string(p.State), Restarts: p.Restarts, Drivers: p.Drivers, Devices: p.Devices,
			Collectors: p.Collectors, Networks: p.Networks,
		}
		if p.LastError != nil {
			info.Error = model.CutText(p.LastError.Error(), maxPluginError)
		}
		if n.Plugins == nil {
			n.Plugins = map[string]*model.NodePlugin{}
		}
		n.Plugins[p.Name] = info
	}
}

func samePlugins(a, b *model.Node) bool {
	return maps.EqualFunc(a.Plugins, b.Plugins, func(x, y *model.NodePlugin) bool {
		return x.Version == y.Version && x.Digest == y.Digest && x.State == y.State && x.Error == y.Error &&
			x.Restarts == y.Restarts && slices.Equal(x.Drivers, y.Drivers) && slices.Equal(x.Devices, y.Devices) &&
			slices.Equal(x.Collectors, y.Collectors) && slices.Equal(x.Networks, y.Networks)
	})
}
