// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"reflect"
	"time"

	"github.com/drover-project/drover/core/agent/devices"
	"github.com/drover-project/drover/core/agent/fingerprint"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
)

// addDevices writes the devices that plugins found into the node.
func addDevices(n *model.Node, prints []pluginhost.DeviceFingerprint) {
	n.NodeResources.Devices = nil
	for _, p := range prints {
		n.NodeResources.Devices = append(n.NodeResources.Devices, pluginhost.DeviceGroups(p, fingerprint.PCINode)...)
	}
}

func sameDevices(a, b *model.Node) bool {
	return reflect.DeepEqual(a.NodeResources.Devices, b.NodeResources.Devices)
}

// openDevices reads back which tasks use which devices.
func (a *Agent) openDevices(ctx context.Context) (err error) {
	a.devices, err = devices.New(ctx, devices.Config{
		Plugins: a.plugins, Store: a.store, Now: time.Now, Logger: a.cfg.Logger.Named("devices"),
		InUse:    func(allocID, task string) bool { return a.allocs.UsesDevices(allocID, task) },
		NoteTask: func(allocID, task string, ev model.TaskEvent) { a.allocs.NoteTask(allocID, task, ev) },
		NoteNode: func(ev *model.NodeEvent) {
			a.session.AddEvents([]*model.NodeEvent{ev})
			a.session.Touch()
		},
	})
	return err
}
