// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// CSIPlugin is a CSI driver as the nodes report it. It is derived from them and from the
// jobs whose allocs run it.
type CSIPlugin struct {
	ID                 string
	Provider           string // see Providers
	Version            string
	ControllerRequired bool
	Controllers        map[string]*CSIInfo // by node
	Nodes              map[string]*CSIInfo // by node
	ControllerJobs     map[string]map[string]*CSIPluginJob
	NodeJobs           map[string]map[string]*CSIPluginJob // by namespace and id
	CreateIndex        uint64
	ModifyIndex        uint64
	CreateTime         int64 // Unix ns
	ModifyTime         int64 // Unix ns
}

// CSIPluginJob is a job that runs a driver, and on how many nodes it is to.
type CSIPluginJob struct {
	Namespace string
	ID        string
	Expected  int
}

// Healthy counts the healthy parts of a driver.
func Healthy(parts map[string]*CSIInfo) (n int) {
	for _, i := range parts {
		if i.Healthy {
			n++
		}
	}
	return n
}

// Expected counts how many parts of a driver there should be.
func Expected(jobs map[string]map[string]*CSIPluginJob) (n int) {
	for _, ofNamespace := range jobs {
		for _, j := range ofNamespace {
			n += j.Expected
		}
	}
	return n
}

// ControllerAttaches reports whether a controller of the driver attaches volumes to nodes. It
// is unknown if no controller is reported.
func (p *CSIPlugin) ControllerAttaches() (attaches, known bool) {
	for _, c := range p.Controllers {
		if c.ControllerInfo != nil {
			return c.ControllerInfo.SupportsAttachDetach, true
		}
	}
	return false, false
}

// Attaches reports whether a controller of the driver attaches vol to nodes. It is unknown if
// no controller is reported though the driver has one: nodes may say nothing of a controller
// that runs elsewhere, so what is known of the volume counts, too.
func (p *CSIPlugin) Attaches(vol *CSIVolume) (attaches, known bool) {
	if attaches, known = p.ControllerAttaches(); known {
		return attaches, true
	}
	return false, !p.ControllerRequired && !vol.NeedsController()
}

// NeedsController reports whether a controller has attached the volume or others of its
// driver, so that it must not be used without one.
func (v *CSIVolume) NeedsController() bool { return v.Attaches || len(v.Attachments) > 0 }

// Schedulable reports whether volumes of the driver can be placed.
func (p *CSIPlugin) Schedulable() bool {
	return p != nil && Healthy(p.Nodes) > 0 && (!p.ControllerRequired || Healthy(p.Controllers) > 0)
}

// providers returns the first node of each driver that has the id of the plugin, by the name
// that the driver gives itself.
func (p *CSIPlugin) providers() map[string]string {
	out := map[string]string{}
	for _, parts := range []map[string]*CSIInfo{p.Controllers, p.Nodes} {
		for node, i := range parts {
			if first, known := out[i.Provider]; i.Provider != "" && (!known || node < first) {
				out[i.Provider] = node
			}
		}
	}
	return out
}

// Contested returns "", or which nodes run different drivers with the id of the plugin and what
// to do about it.
func (p *CSIPlugin) Contested() string {
	of := p.providers()
	if len(of) < 2 {
		return ""
	}
	var which []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		which = append(which, fmt.Sprintf("%q on node %s", name, of[name]))
	}
	return fmt.Sprintf("nodes run different drivers with the id %q: %s; give the csi_plugin block of one of their jobs another id", p.ID, strings.Join(which, ", "))
}

// Providers returns the names of all drivers that have the id of the plugin.
func (p *CSIPlugin) Providers() string {
	return strings.Join(slices.Sorted(maps.Keys(p.providers())), ", ")
}

// Of returns the plugin with those parts only that are the driver of a name: another one of the
// same id has other volumes. "" is the name of one that is not known.
func (p *CSIPlugin) Of(driver string) *CSIPlugin {
	if p == nil || driver == "" || p.Provider == driver { // no other one is there
		return p
	}
	one := *p
	one.Provider, one.Version, one.Controllers, one.Nodes = driver, "", map[string]*CSIInfo{}, map[string]*CSIInfo{}
	for _, side := range []struct{ from, to map[string]*CSIInfo }{{p.Controllers, one.Controllers}, {p.Nodes, one.Nodes}} {
		for node, i := range side.from {
			if i.Provider == "" || i.Provider == driver {
				side.to[node] = i
				one.Version = max(one.Version, i.ProviderVersion)
			}
		}
	}
	return &one
}
