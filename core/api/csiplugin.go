// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/model"
)

// CSIPluginStub is a CSI driver in a list.
type CSIPluginStub struct {
	ID                  string
	Provider            string
	ControllerRequired  bool
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
	CreateIndex         uint64
	ModifyIndex         uint64
}

// CSIPlugin is a CSI driver with the allocs that run it.
type CSIPlugin struct {
	*model.CSIPlugin
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
	Allocations         []*model.AllocListStub
}

func listCSIPlugins(v View, q *query) result {
	prefix, kind := q.prefix(), paramsOf(q.r).get("type")
	p := page[*model.CSIPlugin]{
		items: slices.Values(v.CSIPlugins()),
		keep:  func(p *model.CSIPlugin) bool { return strings.HasPrefix(p.ID, prefix) && (kind == "" || kind == "csi") },
		order: func(p *model.CSIPlugin) order { return order{id: p.ID} },
	}
	return listOf(q, p, func(p *model.CSIPlugin) *CSIPluginStub {
		return &CSIPluginStub{
			ID: p.ID, Provider: p.Provider, ControllerRequired: p.ControllerRequired,
			ControllersHealthy: model.Healthy(p.Controllers), ControllersExpected: model.Expected(p.ControllerJobs),
			NodesHealthy: model.Healthy(p.Nodes), NodesExpected: model.Expected(p.NodeJobs), CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex,
		}
	})
}

func theCSIPlugin(v View, q *query) (*model.CSIPlugin, error) {
	return orMissing(v.CSIPluginByID(q.r.PathValue("id")), "plugin not found")
}

func csiPluginIndex(p *model.CSIPlugin) uint64 { return p.ModifyIndex }

func showCSIPlugin(v View, _ *query, p *model.CSIPlugin) result {
	var allocs []*model.Allocation
	seen := map[string]bool{}
	for _, parts := range []map[string]*model.CSIInfo{p.Controllers, p.Nodes} {
		for _, node := range slices.Sorted(maps.Keys(parts)) {
			if a := v.AllocByID(parts[node].AllocID); a != nil && !seen[a.ID] {
				seen[a.ID] = true
				allocs = append(allocs, a)
			}
		}
	}
	return shown(&CSIPlugin{
		CSIPlugin: p, ControllersHealthy: model.Healthy(p.Controllers), ControllersExpected: model.Expected(p.ControllerJobs),
		NodesHealthy: model.Healthy(p.Nodes), NodesExpected: model.Expected(p.NodeJobs), Allocations: allocStubs(v, allocs),
	})
}
