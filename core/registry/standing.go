// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
)

// Target decides which nodes a plugin targets. It caches answers per class of nodes;
// make one per pass over nodes.
type Target struct {
	spec    *model.PluginSpec
	checker *feasible.Checker
}

// NewTarget returns the target of a plugin.
func NewTarget(p *model.PluginSpec) *Target {
	return &Target{spec: p, checker: feasible.NewChecker(&model.Job{Constraints: p.Constraints}, &model.TaskGroup{})}
}

// Missing returns "" if the plugin targets the node, otherwise the reason why not.
func (t *Target) Missing(n *model.Node) string {
	switch p := t.spec; {
	case len(p.Datacenters) > 0 && !feasible.InDatacenters(n.Datacenter, p.Datacenters):
		return "datacenter " + n.Datacenter
	case p.NodePool != "" && !feasible.InPool(n.NodePool, p.NodePool):
		return "node pool " + n.NodePool
	}
	return t.checker.Check(n)
}

// Covers reports whether the plugin targets the node.
func (t *Target) Covers(n *model.Node) bool { return t.Missing(n) == "" }

// Standing is the status of a node for a plugin.
type Standing string

// The standings. Elsewhere means that the plugin does not target the node.
const (
	Done      Standing = "done"
	InFlight  Standing = "in flight"
	Waiting   Standing = "waiting"
	Failed    Standing = "failed"
	Down      Standing = "down"
	Elsewhere Standing = "not targeted"
)

// Of returns the status of a node, with an explanation if there is one.
func (t *Target) Of(n *model.Node) (Standing, string) {
	if missing := t.Missing(n); missing != "" {
		return Elsewhere, missing
	}
	p, said := t.spec, n.PluginReleases[t.spec.Name]
	switch {
	case n.Status != model.NodeStatusReady:
		return Down, "the node is " + n.Status
	case said != nil && said.Failed == p.Release.Revision:
		return Failed, said.Error
	case p.Rollout.Admits(n.ID) != nil && runs(p, n):
		return InFlight, "it runs and is watched for " + p.MinHealthyTime.String()
	case p.Rollout.Admits(n.ID) != nil:
		return InFlight, reason(said)
	case runs(p, n):
		return Done, ""
	}
	return Waiting, reason(said)
}

func reason(said *model.NodeRelease) string {
	if said == nil {
		return ""
	}
	return said.Error
}

// runs reports whether the node runs the release. A plugin that finds no device on its
// node counts as running, although it is not kept running.
func runs(p *model.PluginSpec, n *model.Node) bool {
	said := n.PluginReleases[p.Name]
	if said == nil || said.Revision != p.Release.Revision {
		return false
	}
	plugin := n.Plugins[p.Name]
	return plugin != nil && plugin.Digest == p.Release.Digest && slices.Contains(statesOfUse, plugin.State)
}

// statesOfUse are the states, in the terms of the nodes' plugin host, of a plugin that
// works: it runs, or the node does not need it to run.
var statesOfUse = []string{"running", "undetected", "resting"}

// Act is an action of a node on a plugin.
type Act int

// The actions.
const (
	Keep    Act = iota // change nothing
	Install            // install the release
	Remove             // remove what the registry installed
)

// For returns what a node should do about the plugin, with the release to install. A
// node that was not admitted keeps what it has; a node without the plugin gets the
// newest release that all nodes have had.
func (t *Target) For(n *model.Node) (Act, *model.PluginRelease) {
	if !t.Covers(n) {
		return Remove, nil
	}
	p, said := t.spec, n.PluginReleases[t.spec.Name]
	switch {
	case p.Rollout.Status == model.PluginRolloutComplete, p.Rollout.Admits(n.ID) != nil,
		said != nil && said.Revision == p.Release.Revision:
		return Install, p.Release
	case said != nil && said.Revision != 0 || p.Previous == nil:
		return Keep, nil
	}
	return Install, p.Previous
}
