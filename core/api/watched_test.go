// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"iter"

	"github.com/drover-project/drover/core/model"
)

// watchedView is a View that tells which of its methods are called.
type watchedView struct {
	countedView
	told func(method string)
}

func (v watchedView) JobByID(ns, id string) *model.Job {
	v.told("JobByID")
	return v.countedView.JobByID(ns, id)
}

func (v watchedView) JobVersions(ns, id string) []*model.Job {
	v.told("JobVersions")
	return v.countedView.JobVersions(ns, id)
}

func (v watchedView) Jobs(ns string) iter.Seq[*model.Job] {
	v.told("Jobs")
	return v.countedView.Jobs(ns)
}

func (v watchedView) JobSummary(ns, id string) *model.JobSummary {
	v.told("JobSummary")
	return v.countedView.JobSummary(ns, id)
}

func (v watchedView) JobSubmission(ns, id string, n uint64) *model.JobSubmission {
	v.told("JobSubmission")
	return v.countedView.JobSubmission(ns, id, n)
}

func (v watchedView) ScalingEvents(ns, id string) map[string][]*model.ScalingEvent {
	v.told("ScalingEvents")
	return v.countedView.ScalingEvents(ns, id)
}

func (v watchedView) AllocByID(id string) *model.Allocation {
	v.told("AllocByID")
	return v.countedView.AllocByID(id)
}

func (v watchedView) AllocsByJob(ns, id string) []*model.Allocation {
	v.told("AllocsByJob")
	return v.countedView.AllocsByJob(ns, id)
}

func (v watchedView) AllocsByNode(id string) []*model.Allocation {
	v.told("AllocsByNode")
	return v.countedView.AllocsByNode(id)
}

func (v watchedView) AllocsByEval(id string) []*model.Allocation {
	v.told("AllocsByEval")
	return v.countedView.AllocsByEval(id)
}

func (v watchedView) Services(ns string) iter.Seq[*model.ServiceRegistration] {
	v.told("Services")
	return v.countedView.Services(ns)
}

func (v watchedView) ServicesByName(ns, name string) []*model.ServiceRegistration {
	v.told("ServicesByName")
	return v.countedView.ServicesByName(ns, name)
}

func (v watchedView) ServicesByJob(ns, id string) []*model.ServiceRegistration {
	v.told("ServicesByJob")
	return v.countedView.ServicesByJob(ns, id)
}

func (v watchedView) ServicesByAlloc(id string) []*model.ServiceRegistration {
	v.told("ServicesByAlloc")
	return v.countedView.ServicesByAlloc(id)
}

func (v watchedView) AllocsByDeployment(id string) []*model.Allocation {
	v.told("AllocsByDeployment")
	return v.countedView.AllocsByDeployment(id)
}

func (v watchedView) Allocs() iter.Seq[*model.Allocation] {
	v.told("Allocs")
	return v.countedView.Allocs()
}

func (v watchedView) EvalByID(id string) *model.Evaluation {
	v.told("EvalByID")
	return v.countedView.EvalByID(id)
}

func (v watchedView) EvalsByJob(ns, id string) []*model.Evaluation {
	v.told("EvalsByJob")
	return v.countedView.EvalsByJob(ns, id)
}

func (v watchedView) Evals() iter.Seq[*model.Evaluation] {
	v.told("Evals")
	return v.countedView.Evals()
}

func (v watchedView) DeploymentByID(id string) *model.Deployment {
	v.told("DeploymentByID")
	return v.countedView.DeploymentByID(id)
}

func (v watchedView) LatestDeployment(ns, id string) *model.Deployment {
	v.told("LatestDeployment")
	return v.countedView.LatestDeployment(ns, id)
}

func (v watchedView) DeploymentsByJob(ns, id string) []*model.Deployment {
	v.told("DeploymentsByJob")
	return v.countedView.DeploymentsByJob(ns, id)
}

func (v watchedView) Deployments() iter.Seq[*model.Deployment] {
	v.told("Deployments")
	return v.countedView.Deployments()
}

func (v watchedView) NodeByID(id string) *model.Node {
	v.told("NodeByID")
	return v.countedView.NodeByID(id)
}

func (v watchedView) Nodes() iter.Seq[*model.Node] {
	v.told("Nodes")
	return v.countedView.Nodes()
}

func (v watchedView) NamespaceByName(name string) *model.Namespace {
	v.told("NamespaceByName")
	return v.countedView.NamespaceByName(name)
}

func (v watchedView) Namespaces() iter.Seq[*model.Namespace] {
	v.told("Namespaces")
	return v.countedView.Namespaces()
}

func (v watchedView) NodePoolByName(name string) *model.NodePool {
	v.told("NodePoolByName")
	return v.countedView.NodePoolByName(name)
}

func (v watchedView) NodePools() iter.Seq[*model.NodePool] {
	v.told("NodePools")
	return v.countedView.NodePools()
}

func (v watchedView) SchedulerConfig() *model.SchedulerConfiguration {
	v.told("SchedulerConfig")
	return v.countedView.SchedulerConfig()
}

func (v watchedView) VariableByPath(ns, path string) *model.Variable {
	v.told("VariableByPath")
	return v.countedView.VariableByPath(ns, path)
}

func (v watchedView) Variables(ns, prefix string) iter.Seq[*model.Variable] {
	v.told("Variables")
	return v.countedView.Variables(ns, prefix)
}

func (v watchedView) RootKeys() iter.Seq[*model.RootKey] {
	v.told("RootKeys")
	return v.countedView.RootKeys()
}

func (v watchedView) PluginSpecByName(name string) *model.PluginSpec {
	v.told("PluginSpecByName")
	return v.countedView.PluginSpecByName(name)
}

func (v watchedView) PluginSpecs() iter.Seq[*model.PluginSpec] {
	v.told("PluginSpecs")
	return v.countedView.PluginSpecs()
}

func (v watchedView) DriverSchemas() iter.Seq[*model.DriverSchema] {
	v.told("DriverSchemas")
	return v.countedView.DriverSchemas()
}

func (v watchedView) DriverSchemasOf(name string) []*model.DriverSchema {
	v.told("DriverSchemasOf")
	return v.countedView.DriverSchemasOf(name)
}

func (v watchedView) DriverUses(name string) []*model.DriverUse {
	v.told("DriverUses")
	return v.countedView.DriverUses(name)
}

func (v watchedView) HostVolumeByID(id string) *model.HostVolume {
	v.told("HostVolumeByID")
	return v.countedView.HostVolumeByID(id)
}

func (v watchedView) HostVolumes() iter.Seq[*model.HostVolume] {
	v.told("HostVolumes")
	return v.countedView.HostVolumes()
}

func (v watchedView) HostVolumeUsers(h *model.HostVolume) []*model.Allocation {
	v.told("HostVolumeUsers")
	return v.countedView.HostVolumeUsers(h)
}

func (v watchedView) VolumeClaims() iter.Seq[*model.VolumeClaim] {
	v.told("VolumeClaims")
	return v.countedView.VolumeClaims()
}

func (v watchedView) CSIVolumeByID(ns, id string) *model.CSIVolume {
	v.told("CSIVolumeByID")
	return v.countedView.CSIVolumeByID(ns, id)
}

func (v watchedView) CSIVolumes() iter.Seq[*model.CSIVolume] {
	v.told("CSIVolumes")
	return v.countedView.CSIVolumes()
}

func (v watchedView) CSIVolumeHolders(ns, id string) []*model.Allocation {
	v.told("CSIVolumeHolders")
	return v.countedView.CSIVolumeHolders(ns, id)
}

func (v watchedView) CSIPluginByID(id string) *model.CSIPlugin {
	v.told("CSIPluginByID")
	return v.countedView.CSIPluginByID(id)
}

func (v watchedView) CSIPlugins() []*model.CSIPlugin {
	v.told("CSIPlugins")
	return v.countedView.CSIPlugins()
}
