// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package storage

import (
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/volume"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Offered returns what the node tells servers of its storage plugins, by their ids: the
// controllers' parts and the nodes' parts; and a channel that is closed when it has changed.
func (k *Keeper) Offered() (controllers, nodes map[string]*model.CSIInfo, changed <-chan struct{}) {
	prints, _ := k.cfg.Plugins.Volumes() // Run tells of their changes
	controllers, nodes = map[string]*model.CSIInfo{}, map[string]*model.CSIInfo{}
	k.mu.Lock()
	for i := range prints {
		if !isInstance(&prints[i]) {
			add(k.ownPlugin(&prints[i]), controllers, nodes)
		}
	}
	all, changed := k.reports, k.changed
	k.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if r := all[name]; k.cfg.Lives(r.AllocID) {
			add(r, controllers, nodes)
		}
	}
	return controllers, nodes, changed
}

// ownPlugin is the report on a storage plugin that is no instance of the adapter. The lock is
// held.
func (k *Keeper) ownPlugin(p *pluginhost.VolumeFingerprint) *model.CSIInfo {
	r, before := &model.CSIInfo{PluginID: p.Name}, k.own[p.Name]
	describe(r, &p.Fingerprint, p.Problem, true, true)
	if r.UpdateTime = k.cfg.Now().UTC(); before != nil && before.Healthy == r.Healthy {
		r.UpdateTime = before.UpdateTime
	}
	k.own[p.Name] = r
	return r
}

// add adds a report to the controllers, to the nodes, or to both, depending on the parts that it
// has. An earlier report of the same plugin keeps its place.
func add(r *model.CSIInfo, controllers, nodes map[string]*model.CSIInfo) {
	if r.ControllerInfo != nil && controllers[r.PluginID] == nil {
		one := *r
		one.NodeInfo = nil
		controllers[r.PluginID] = &one
	}
	if r.NodeInfo != nil && nodes[r.PluginID] == nil {
		one := *r
		one.ControllerInfo = nil
		nodes[r.PluginID] = &one
	}
}

// isInstance reports whether a fingerprint is from an instance of the adapter.
func isInstance(p *pluginhost.VolumeFingerprint) bool {
	return strings.HasPrefix(p.Plugin, Adapter+"@")
}

// reported returns the last report on a part of a driver; nil if there is none, or if its alloc
// has ended.
func (k *Keeper) reported(name string) *model.CSIInfo {
	k.mu.Lock()
	r := k.reports[name]
	k.mu.Unlock()
	if r != nil && k.cfg.Lives(r.AllocID) {
		return r
	}
	return nil
}

// report updates the report on a driver. Without a fingerprint only its health changes.
func (k *Keeper) report(s *slot, r *running, print *pluginhost.VolumeFingerprint, problem string) {
	name := s.part.name()
	k.mu.Lock()
	before := k.reports[name]
	k.mu.Unlock()
	next := &model.CSIInfo{}
	if before != nil {
		*next = *before
	}
	next.PluginID, next.AllocID = s.part.id, r.AllocID
	if print != nil && (problem == "" || print.Provider != "") {
		describe(next, &print.Fingerprint, problem, controls(r.Plugin), publishes(r.Plugin))
	}
	setHealth(next, problem)
	if next.UpdateTime = k.cfg.Now().UTC(); before != nil && next.Healthy == before.Healthy {
		next.UpdateTime = before.UpdateTime
	}
	if reflect.DeepEqual(next, before) {
		return
	}
	if err := k.put(name, next); err != nil && k.ctx.Err() == nil {
		k.cfg.Logger.Warn("after a restart, the agent will not tell of its CSI drivers until it has asked them", "error", err)
	}
}

// put replaces a report.
func (k *Keeper) put(name string, r *model.CSIInfo) error {
	return k.change(func(all map[string]*model.CSIInfo) { all[name] = r })
}

// bury removes the reports of ended allocs.
func (k *Keeper) bury() {
	k.mu.Lock()
	all := k.reports
	k.mu.Unlock()
	dead := map[string]*model.CSIInfo{}
	for name, r := range all {
		if !k.cfg.Lives(r.AllocID) {
			dead[name] = r
		}
	}
	if len(dead) == 0 {
		return
	}
	err := k.change(func(all map[string]*model.CSIInfo) {
		maps.DeleteFunc(all, func(name string, r *model.CSIInfo) bool { return dead[name] == r })
	})
	if err != nil && k.ctx.Err() == nil {
		k.cfg.Logger.Warn("what was told of CSI drivers whose allocs have ended is forgotten later", "error", err)
	}
}

// change changes the reports, stores them and tells of it.
func (k *Keeper) change(do func(map[string]*model.CSIInfo)) error {
	k.storing.Lock() // the newest reports are stored last
	defer k.storing.Unlock()
	k.mu.Lock()
	all := maps.Clone(k.reports)
	do(all)
	k.reports = all
	k.tell()
	k.mu.Unlock()
	body, err := json.Marshal(all)
	if err != nil {
		return errdefs.Internalf("encode what is reported of storage drivers: %w", err)
	}
	return k.cfg.Store.Put(k.ctx, storeKey, body)
}

func setHealth(r *model.CSIInfo, problem string) {
	r.Healthy, r.HealthDescription = problem == "", "healthy"
	if problem != "" {
		r.HealthDescription = model.CutText(problem, maxProblem)
	}
}

// maxProblem limits the description of a problem, in bytes.
const maxProblem = 1024

// describe writes a fingerprint into a report.
func describe(r *model.CSIInfo, f *volume.Fingerprint, problem string, controller, node bool) {
	setHealth(r, problem)
	r.Provider, r.ProviderVersion = f.Provider, f.ProviderVersion
	if r.Provider == "" {
		r.Provider = r.PluginID
	}
	has := slices.ContainsFunc(controllerCapabilities, f.Can)
	r.RequiresControllerPlugin, r.RequiresTopologies = has || f.Can(volume.HasController), f.Can(volume.HasTopology)
	r.ControllerInfo, r.NodeInfo = nil, nil
	if controller && (has || f.Can(volume.HasController)) {
		r.ControllerInfo = &model.CSIControllerInfo{
			SupportsAttachDetach: f.Can(volume.CanAttach), SupportsClone: f.Can(volume.CanClone), SupportsCondition: f.Can(volume.CanCondition),
			SupportsCreateDelete: f.Can(volume.CanCreate), SupportsCreateDeleteSnapshot: f.Can(volume.CanSnapshot), SupportsExpand: f.Can(volume.CanExpand),
			SupportsGet: f.Can(volume.CanGet), SupportsGetCapacity: f.Can(volume.CanCapacity), SupportsListSnapshots: f.Can(volume.CanListSnapshots),
			SupportsListVolumes: f.Can(volume.CanList), SupportsListVolumesAttachedNodes: f.Can(volume.CanPublishedNodes), SupportsReadOnlyAttach: f.Can(volume.CanAttachReadOnly),
			SupportsExpandOnline: f.Can(volume.CanExpandOnline), SupportsSingleNodeMultiWriter: f.Can(volume.CanSingleNodeMultiWriter),
		}
	}
	if node && f.Node != nil {
		r.NodeInfo = &model.CSINodeInfo{
			ID: f.Node.ID, MaxVolumes: f.Node.MaxVolumes, RequiresNodeStageVolume: f.Can(volume.CanStage), SupportsCondition: f.Can(volume.CanNodeCondition),
			SupportsExpand: f.Can(volume.CanNodeExpand), SupportsStats: f.Can(volume.CanStats),
			SupportsSingleNodeMultiWriter: f.Can(volume.CanSingleNodeMultiWriter), SupportsMountGroup: f.Can(volume.CanMountGroup),
		}
		if r.NodeInfo.MaxVolumes == 0 {
			r.NodeInfo.MaxVolumes = math.MaxInt64
		}
		if f.Node.Topology != nil {
			r.NodeInfo.AccessibleTopology = &model.CSITopology{Segments: maps.Clone(f.Node.Topology)}
		}
	}
}

// controllerCapabilities are those that only a controller's part has.
var controllerCapabilities = []volume.Capability{
	volume.CanCreate, volume.CanValidate, volume.CanList, volume.CanGet, volume.CanCapacity, volume.CanExpand, volume.CanModify,
	volume.CanSnapshot, volume.CanListSnapshots, volume.CanAttach,
}
