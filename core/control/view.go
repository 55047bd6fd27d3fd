// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package control

import (
	"iter"
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// View is a view of the state that shows the tables which a controller declares. A
// read of another table panics, which Loops turns into the error of one
// decision: a decision on half of what it asked for would be worse than none.
type View struct {
	state *state.View
	decl  *Declaration
}

// Restrict returns what a controller with the declaration sees of a state.
func Restrict(v *state.View, d Declaration) View { return View{state: v, decl: &d} }

// of returns the state for a read of the table.
func (v View) of(table string) *state.View {
	if !slices.Contains(v.decl.Reads, table) {
		panic(undeclared{errdefs.Internalf("controller %q read the table %q, which it does not declare: add it to the Reads of its declaration", v.decl.Name, table)})
	}
	return v.state
}

// undeclared is the panic of a read that is not declared.
type undeclared struct{ err error }

// AllocsByDeployment is state.View's.
func (v View) AllocsByDeployment(id string) []*model.Allocation {
	return v.of(state.TableAllocs).AllocsByDeployment(id)
}

// AllocsByEval is state.View's.
func (v View) AllocsByEval(id string) []*model.Allocation {
	return v.of(state.TableAllocs).AllocsByEval(id)
}

// CSIPluginByID is state.View's.
func (v View) CSIPluginByID(id string) *model.CSIPlugin {
	return v.of(state.TableNodes).CSIPluginByID(id)
}

// AllocByID returns an alloc, nil if there is none.
func (v View) AllocByID(id string) *model.Allocation {
	return v.of(state.TableAllocs).AllocByID(id)
}

// AllocsByJob is state.View's.
func (v View) AllocsByJob(ns, id string) []*model.Allocation {
	return v.of(state.TableAllocs).AllocsByJob(ns, id)
}

// AllocsByNode is state.View's.
func (v View) AllocsByNode(id string) []*model.Allocation {
	return v.of(state.TableAllocs).AllocsByNode(id)
}

// DeploymentByID is state.View's.
func (v View) DeploymentByID(id string) *model.Deployment {
	return v.of(state.TableDeployments).DeploymentByID(id)
}

// Deployments is state.View's.
func (v View) Deployments() iter.Seq[*model.Deployment] {
	return v.of(state.TableDeployments).Deployments()
}

// DriverSchemas is state.View's.
func (v View) DriverSchemas() iter.Seq[*model.DriverSchema] {
	return v.of(state.TableDriverSchemas).DriverSchemas()
}

// DriverSchemaInUse is state.View's.
func (v View) DriverSchemaInUse(s *model.DriverSchema) bool {
	return v.of(state.TableDriverSchemas).DriverSchemaInUse(s)
}

// EvalByID is state.View's.
func (v View) EvalByID(id string) *model.Evaluation {
	return v.of(state.TableEvals).EvalByID(id)
}

// Evals is state.View's.
func (v View) Evals() iter.Seq[*model.Evaluation] {
	return v.of(state.TableEvals).Evals()
}

// EvalsByJob is state.View's.
func (v View) EvalsByJob(ns, id string) []*model.Evaluation {
	return v.of(state.TableEvals).EvalsByJob(ns, id)
}

// JobByID is state.View's.
func (v View) JobByID(ns, id string) *model.Job {
	return v.of(state.TableJobs).JobByID(ns, id)
}

// JobByKey is state.View's.
func (v View) JobByKey(key string) *model.Job {
	return v.of(state.TableJobs).JobByKey(key)
}

// Jobs is state.View's.
func (v View) Jobs(ns string) iter.Seq[*model.Job] {
	return v.of(state.TableJobs).Jobs(ns)
}

// JobByVersion is state.View's.
func (v View) JobByVersion(ns, id string, version uint64) *model.Job {
	return v.of(state.TableJobVersions).JobByVersion(ns, id, version)
}

// JobOf is state.View's.
func (v View) JobOf(a *model.Allocation) *model.Job {
	return v.of(state.TableJobVersions).JobOf(a)
}

// JobVersions is state.View's.
func (v View) JobVersions(ns, id string) []*model.Job {
	return v.of(state.TableJobVersions).JobVersions(ns, id)
}

// JobSummary is state.View's.
func (v View) JobSummary(ns, id string) *model.JobSummary {
	return v.of(state.TableJobSummaries).JobSummary(ns, id)
}

// NamespaceByName is state.View's.
func (v View) NamespaceByName(name string) *model.Namespace {
	return v.of(state.TableNamespaces).NamespaceByName(name)
}

// Namespaces is state.View's.
func (v View) Namespaces() iter.Seq[*model.Namespace] {
	return v.of(state.TableNamespaces).Namespaces()
}

// NodeByID is state.View's.
func (v View) NodeByID(id string) *model.Node {
	return v.of(state.TableNodes).NodeByID(id)
}

// Nodes is state.View's.
func (v View) Nodes() iter.Seq[*model.Node] {
	return v.of(state.TableNodes).Nodes()
}

// NodesFrom is state.View's.
func (v View) NodesFrom(from string) iter.Seq[*model.Node] {
	return v.of(state.TableNodes).NodesFrom(from)
}

// PeriodicLaunch is state.View's.
func (v View) PeriodicLaunch(ns, id string) *model.PeriodicLaunch {
	return v.of(state.TablePeriodic).PeriodicLaunch(ns, id)
}

// PluginSpecByName is state.View's.
func (v View) PluginSpecByName(name string) *model.PluginSpec {
	return v.of(state.TablePluginSpecs).PluginSpecByName(name)
}

// PluginSpecs is state.View's.
func (v View) PluginSpecs() iter.Seq[*model.PluginSpec] {
	return v.of(state.TablePluginSpecs).PluginSpecs()
}

// RootKeys is state.View's.
func (v View) RootKeys() iter.Seq[*model.RootKey] {
	return v.of(state.TableRootKeys).RootKeys()
}
