// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"maps"
	"reflect"
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// pluginChange says that a node tells something new of a CSI driver. Its event has the driver
// as it is when the event is sent, since a driver is derived from many rows.
type pluginChange struct{ id string }

// pluginChanges returns the drivers of which a change of a node tells something new.
func pluginChanges(c *state.Change) []string {
	if c.Table != state.TableNodes {
		return nil
	}
	was, _ := c.Old.(*model.Node)
	is, _ := c.New.(*model.Node)
	changed := map[string]bool{}
	for _, of := range []func(*model.Node) map[string]*model.CSIInfo{
		func(n *model.Node) map[string]*model.CSIInfo { return n.CSIControllerPlugins },
		func(n *model.Node) map[string]*model.CSIInfo { return n.CSINodePlugins },
	} {
		var before, after map[string]*model.CSIInfo
		if was != nil {
			before = of(was)
		}
		if is != nil {
			after = of(is)
		}
		for _, ids := range []map[string]*model.CSIInfo{before, after} {
			for id := range ids {
				if b, a := before[id], after[id]; b != a && !reflect.DeepEqual(b, a) {
					changed[id] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

// keepPlugins adds the events of CSI drivers that a change makes.
func (b *changeBatch) keepPlugins(c *state.Change) {
	kind := "NodeRegistration"
	if isNil(c.New) {
		kind = "NodeDeregistration"
	}
	for _, id := range pluginChanges(c) {
		b.changes = append(b.changes, keptChange{kind: kind, object: pluginChange{id}})
	}
}

// describePlugin adds the driver to its event.
func describePlugin(v View, e *Event, id string) {
	var p *model.CSIPlugin
	if v != nil {
		p = v.CSIPluginByID(id)
	}
	if p == nil {
		p = &model.CSIPlugin{
			ID: id, Controllers: map[string]*model.CSIInfo{}, Nodes: map[string]*model.CSIInfo{},
			ControllerJobs: map[string]map[string]*model.CSIPluginJob{}, NodeJobs: map[string]map[string]*model.CSIPluginJob{},
		}
	}
	e.Payload = map[string]any{"Plugin": &CSIPlugin{
		CSIPlugin: p, ControllersHealthy: model.Healthy(p.Controllers), ControllersExpected: model.Expected(p.ControllerJobs),
		NodesHealthy: model.Healthy(p.Nodes), NodesExpected: model.Expected(p.NodeJobs),
	}}
}
