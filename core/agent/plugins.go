// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
)

// pluginSettle is how long the agent waits for further changes of plugins before it reports
// one to the servers.
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
func awaitChange(ctx context.Context, plugins <-chan struct{}, placement ...<-chan struct{}) bool {
	urgent := make([]reflect.SelectCase, 0, len(placement)+2)
	for _, c := range append(placement, ctx.Done()) {
		urgent = append(urgent, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)})
	}
	if at, _, _ := reflect.Select(append(urgent, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(plugins)})); at == len(urgent) {
		settled := time.NewTimer(pluginSettle)
		defer settled.Stop()
		_, _, _ = reflect.Select(append(urgent, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(settled.C)}))
	}
	return ctx.Err() == nil
}

// maxPluginError limits, in bytes, the error of a plugin that the agent reports to the
// servers.
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
