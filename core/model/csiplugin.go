// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// CSIPlugin is a CSI driver as the nodes report it. It is derived from them and from the
// jobs whose allocs run it.
type CSIPlugin struct {
	ID                 string
	Provider           string
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

// Attaches reports whether a controller of the driver attaches volumes to nodes. It is
// unknown if no controller is reported though the driver has one.
func (p *CSIPlugin) Attaches() (attaches, known bool) {
	for _, c := range p.Controllers {
		if c.ControllerInfo != nil {
			return c.ControllerInfo.SupportsAttachDetach, true
		}
	}
	return false, !p.ControllerRequired
}

// Schedulable reports whether volumes of the driver can be placed.
func (p *CSIPlugin) Schedulable() bool {
	return p != nil && Healthy(p.Nodes) > 0 && (!p.ControllerRequired || Healthy(p.Controllers) > 0)
}
