// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/fingerprint"
	"github.com/drover-project/drover/core/agent/local"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
)

const identityKey = "node/identity"

// identity returns the node's id and secret, made at the first start.
func identity(ctx context.Context, store *local.Store) (id, secret string, err error) {
	type record struct{ ID, SecretID string }
	body, err := store.Get(ctx, identityKey)
	switch {
	case err == nil:
		var rec record
		if err := json.Unmarshal(body, &rec); err != nil {
			return "", "", errdefs.Internalf("the node's identity is damaged: %w", err)
		}
		return rec.ID, rec.SecretID, nil
	case !errdefs.IsNotFound(err):
		return "", "", err
	}
	rec := record{ID: uuid.NewString(), SecretID: uuid.NewString()}
	body, err = json.Marshal(rec)
	if err != nil {
		return "", "", errdefs.Internalf("encode the node's identity: %w", err)
	}
	return rec.ID, rec.SecretID, store.Put(ctx, identityKey, body)
}

// Node is the node as it last described itself to the servers. It is shared and must not be
// changed.
func (a *Agent) Node() *model.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.node
}

// NodeID is the node's id; it stays the same over restarts.
func (a *Agent) NodeID() string { return a.nodeID }

// describe makes the node from the operator's words, the machine and the drivers.
func (a *Agent) describe() *model.Node {
	n := a.cfg.Node.Copy()
	n.ID, n.SecretID, n.Region, n.Instance = a.nodeID, a.secret, a.cfg.Region, a.instance
	if n.Name == "" {
		n.Name = a.facts.Hostname
	}
	if n.Datacenter == "" {
		n.Datacenter = "dc1"
	}
	if n.NodePool == "" {
		n.NodePool = "default"
	}
	n.CgroupParent = fingerprint.CgroupParent()
	n.Attributes = maps.Clone(a.facts.Attributes)
	resources := *a.facts.Resources
	n.NodeResources = &resources
	n.ReservedResources = a.facts.Reserved
	n.Meta = a.meta.over(n.Meta)
	if n.Links == nil {
		n.Links = map[string]string{}
	}
	if n.HostVolumes == nil {
		n.HostVolumes = map[string]*model.HostVolumeConfig{}
	}
	n.Status, n.SchedulingEligibility = model.NodeStatusInit, model.NodeSchedulingEligible
	if a.cfg.Ineligible {
		n.SchedulingEligibility = model.NodeSchedulingIneligible // only for a new node; the servers keep the eligibility of a known one
	}
	prints, _ := a.plugins.Fingerprints()
	addDrivers(n, prints, &a.cfg.Rules)
	a.schemas.name(n, prints, func(driver string, err error) {
		a.cfg.Logger.Warn("jobs cannot be checked against a driver's schema", "driver", driver, "error", err)
	})
	devices, _ := a.plugins.Devices()
	addDevices(n, devices)
	networks, _ := a.plugins.Networks()
	addNetworks(n, networks)
	registries, _ := a.plugins.Registries()
	addRegistries(n, registries)
	plugins, _ := a.plugins.Plugins()
	addPlugins(n, plugins)
	a.addHostVolumes(n)
	a.addStorage(n)
	a.addDisks(n)
	if before := a.Node(); before != nil {
		keepTimes(n, before)
	}
	return n
}

// addDrivers writes the drivers into the node. An undetected driver, and one that the
// operator's rules deny, is not offered.
func addDrivers(n *model.Node, prints []pluginhost.DriverFingerprint, rules *alloc.Rules) {
	n.Drivers = map[string]*model.DriverInfo{}
	for _, p := range prints {
		if err := rules.AllowDriver(p.Name); err != nil {
			p.Health, p.HealthDescription, p.Attributes = driver.HealthUndetected, err.Error(), nil
		}
		detected := p.Health != driver.HealthUndetected
		info := &model.DriverInfo{
			Attributes: map[string]string{}, Detected: detected, Healthy: p.Health == driver.HealthHealthy,
			HealthDescription: p.HealthDescription, UpdateTime: time.Now().UTC(),
		}
		if info.HealthDescription == "" && info.Healthy {
			info.HealthDescription = "Healthy"
		}
		for k, v := range p.Attributes {
			if k == "driver."+p.Name && v == "1" { // as the reference shows it in the driver's own list
				info.Attributes[k] = "true"
			} else {
				info.Attributes[k] = v
			}
			if detected {
				n.Attributes[k] = v
			}
		}
		if detected && n.Attributes["driver."+p.Name] == "" {
			n.Attributes["driver."+p.Name] = "1"
			info.Attributes["driver."+p.Name] = "true"
		}
		delete(info.Attributes, model.UpdatesResourcesAttribute(p.Name))
		delete(n.Attributes, model.UpdatesResourcesAttribute(p.Name))
		if detected && slices.Contains(p.Features, driver.FeatureUpdateResources) {
			n.Attributes[model.UpdatesResourcesAttribute(p.Name)] = "true"
		}
		delete(info.Attributes, model.DriverNetworksAttribute(p.Name))
		delete(n.Attributes, model.DriverNetworksAttribute(p.Name))
		if modes := networkModes(p); detected && len(modes) > 0 {
			n.Attributes[model.DriverNetworksAttribute(p.Name)] = strings.Join(modes, ",")
		}
		n.Drivers[p.Name] = info
	}
}

// keepTimes gives each driver that has not changed since before the update time from
// before, so that the node need not send it to the servers again.
func keepTimes(n, before *model.Node) {
	for name, now := range n.Drivers {
		was := before.Drivers[name]
		if was == nil {
			continue
		}
		then := *now
		then.UpdateTime = was.UpdateTime
		if reflect.DeepEqual(&then, was) {
			n.Drivers[name] = was
		}
	}
}

// followFingerprints registers the node again when its drivers, devices, host volumes or
// plugins change, and follows the drivers' events about their tasks. It registers at a
// bounded rate, so that a plugin whose fingerprint changes all the time does not flood the
// servers.
func (a *Agent) followFingerprints(ctx context.Context) {
	listening := map[string]bool{}
	var seen map[string]pluginhost.PluginStatus
	pace := rate.NewLimiter(rate.Every(registerPause), registerBurst)
	for pace.Wait(ctx) == nil {
		prints, changed := a.plugins.Fingerprints()
		_, devicesChanged := a.plugins.Devices()
		_, networksChanged := a.plugins.Networks()
		_, registriesChanged := a.plugins.Registries()
		plugins, pluginsChanged := a.plugins.Plugins()
		_, volumesChanged := a.volumes.Offered()
		_, _, storageChanged := a.storage.Offered()
		for _, p := range prints {
			if !listening[p.Name] {
				listening[p.Name] = true
				a.work.Go(func() { a.followDriver(ctx, p.Name) })
			}
		}
		events := pluginEvents(seen, plugins, time.Now())
		a.session.AddEvents(events)
		seen = pluginsByName(plugins)
		if a.redescribe() || len(events) > 0 {
			a.session.Touch()
		}
		if !awaitChange(ctx, pluginsChanged, changed, devicesChanged, networksChanged, registriesChanged, volumesChanged, storageChanged) {
			return
		}
	}
}

// redescribe describes the node again and reports whether anything has changed that
// servers know.
func (a *Agent) redescribe() bool {
	next := a.describe()
	a.mu.Lock()
	defer a.mu.Unlock()
	differs := !sameDrivers(a.node, next) || !sameDevices(a.node, next) || !sameNetworks(a.node, next) || !samePlugins(a.node, next) || !sameHostVolumes(a.node, next) || !sameStorage(a.node, next)
	if differs {
		a.node = next
	}
	return differs
}

func sameDrivers(a, b *model.Node) bool {
	return maps.Equal(a.Attributes, b.Attributes) && maps.EqualFunc(a.Drivers, b.Drivers, func(x, y *model.DriverInfo) bool {
		return x.Detected == y.Detected && x.Healthy == y.Healthy && x.HealthDescription == y.HealthDescription &&
			x.SchemaHash == y.SchemaHash && x.PluginVersion == y.PluginVersion
	})
}

// followPause is the pause before the agent opens a driver's stream of events again after
// it has ended.
const followPause = 5 * time.Second

// followDriver adds the events that a driver reports to the events of its tasks.
func (a *Agent) followDriver(ctx context.Context, name string) {
	for ctx.Err() == nil {
		drv, err := a.plugins.Driver(name)
		if err == nil {
			var events <-chan driver.TaskEvent
			if events, err = drv.TaskEvents(ctx); err == nil {
				for ev := range events {
					a.noteDriverEvent(name, ev)
				}
			}
		}
		if errdefs.IsUnimplemented(err) {
			return
		}
		_ = sleep.For(ctx, followPause)
	}
}

func (a *Agent) noteDriverEvent(of string, ev driver.TaskEvent) {
	id, _, _ := strings.Cut(ev.TaskID, "/")
	if r, err := a.allocs.Runner(id); err == nil {
		r.NoteDriverEvent(of, ev)
	}
}

// probe inspects the machine, and warns of settings that do not suit it.
func (a *Agent) probe(ctx context.Context) *fingerprint.Facts {
	facts := fingerprint.Probe(ctx, a.cfg.Fingerprint)
	for _, problem := range facts.Problems {
		a.cfg.Logger.Warn(problem)
	}
	for _, name := range slices.Sorted(maps.Keys(a.cfg.Node.HostVolumes)) {
		if _, err := os.Stat(a.cfg.Node.HostVolumes[name].Path); err != nil {
			a.cfg.Logger.Warn("the directory of a host volume cannot be used, so allocs that want it do not start", "host_volume", name, "error", err)
		}
	}
	return facts
}
