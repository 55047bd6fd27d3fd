// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package plugins owns the controller of plugin roll-outs. It admits nodes to the
// release of a registered plugin, at most MaxParallel at a time, until all have it,
// and stops at the first that fails or misses its deadline. The rules are in
// core/registry; nodes do the work. core/server imports it.
package plugins

import (
	"strings"
	"time"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/registry"
	"github.com/drover-project/drover/core/state"
)

// Key prefixes: a plugin, and a node whose report may let roll-outs continue.
const (
	pluginKey = "plugin/"
	nodeKey   = "node/"
)

// Controller handles the roll-out of a plugin.
type Controller struct{}

var _ control.Controller = Controller{}

var declaration = control.Declaration{
	Name:   "plugins",
	Wakes:  []string{state.TablePluginSpecs, state.TableNodes},
	Reads:  []string{state.TablePluginSpecs, state.TableNodes},
	Writes: []fsm.Command{(*fsm.StepPluginRollout)(nil)},
}

// Declare returns what the controller may touch.
func (Controller) Declare() control.Declaration { return declaration }

// Keys returns the plugin that changed, or the node if its report is relevant.
func (Controller) Keys(c state.Change) []string {
	switch row := c.New.(type) {
	case *model.PluginSpec:
		return []string{pluginKey + row.Name}
	case *model.Node:
		if old, known := c.Old.(*model.Node); !known || tells(old, row) {
			return []string{nodeKey + row.ID}
		}
	case nil:
		if old, was := c.Old.(*model.Node); was {
			return []string{nodeKey + old.ID}
		}
	}
	return nil
}

// tells reports whether a node's report changed in a way that is relevant to a
// roll-out.
func tells(old, now *model.Node) bool {
	if old.Status != now.Status || old.ComputedClass != now.ComputedClass || len(old.PluginReleases) != len(now.PluginReleases) {
		return true
	}
	for name, said := range now.PluginReleases {
		was := old.PluginReleases[name]
		if was == nil || *was != *said || !samePlugin(old.Plugins[name], now.Plugins[name]) {
			return true
		}
	}
	return false
}

func samePlugin(a, b *model.NodePlugin) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.State == b.State && a.Digest == b.Digest
}

// All returns the plugins whose roll-out has not ended.
func (Controller) All(v control.View) []string {
	var out []string
	for p := range v.PluginSpecs() {
		out = append(out, pluginKey+p.Name)
	}
	return out
}

// Decide takes the next step of a plugin's roll-out. For a node it takes the next step
// of each roll-out in which the node is in flight or has failed.
func (Controller) Decide(in control.Input, key string) (control.Decision, error) {
	var d control.Decision
	if name, ok := strings.CutPrefix(key, pluginKey); ok {
		if p := in.View.PluginSpecByName(name); p != nil {
			d.Wake = decide(in, p, &d)
		}
		return d, nil
	}
	id := strings.TrimPrefix(key, nodeKey)
	n := in.View.NodeByID(id)
	for p := range in.View.PluginSpecs() {
		if concerns(p, id, n) {
			decide(in, p, &d) // the key of the plugin handles the deadlines
		}
	}
	return d, nil
}

func concerns(p *model.PluginSpec, id string, n *model.Node) bool {
	if p.Rollout.Admits(id) != nil {
		return true
	}
	if n == nil || !p.Rollout.Active() {
		return false
	}
	said := n.PluginReleases[p.Name]
	return said != nil && said.Failed == p.Release.Revision
}

// decide adds the next step of one roll-out and returns its next deadline.
func decide(in control.Input, p *model.PluginSpec, d *control.Decision) time.Time {
	next, wake := registry.Step(p, in.View, in.Now)
	if next != nil {
		d.Commands = append(d.Commands, &fsm.StepPluginRollout{Name: p.Name, Index: p.ModifyIndex, Rollout: next.Rollout, Revert: next.Revert})
	}
	return wake
}
