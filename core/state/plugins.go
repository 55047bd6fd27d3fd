// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"iter"

	"github.com/drover-project/drover/core/model"
)

// TablePluginSpecs is the name of the table of plugin specs.
const TablePluginSpecs = "plugin_specs"

var pluginTable = &kind[model.PluginSpec]{
	heading: heading{name: TablePluginSpecs},
	schema:  schema[model.PluginSpec]{id: func(p *model.PluginSpec) string { return p.Name }},
	record:  60,
}

// PluginSpecByName returns a plugin of the registry.
func (v *View) PluginSpecByName(name string) *model.PluginSpec { return pluginTable.in(v.t).get(name) }

// PluginSpecs yields the plugins of the registry, ordered by name.
func (v *View) PluginSpecs() iter.Seq[*model.PluginSpec] { return pluginTable.in(v.t).all("") }

// PluginSpecCount returns how many plugins the registry has.
func (v *View) PluginSpecCount() int { return pluginTable.in(v.t).len() }

// UpsertPluginSpec stores a plugin of the registry. The transaction takes ownership of
// p.
func (tx *Tx) UpsertPluginSpec(p *model.PluginSpec) {
	p.CreateIndex, p.ModifyIndex = tx.index, tx.index
	if old := pluginTable.in(tx.t).get(p.Name); old != nil {
		p.CreateIndex = old.CreateIndex
	}
	record(tx, pluginTable, pluginTable.in(tx.t).put(p), p)
}

// DeletePluginSpec removes a plugin of the registry, if it exists.
func (tx *Tx) DeletePluginSpec(name string) {
	if old := pluginTable.in(tx.t).delete(name); old != nil {
		record(tx, pluginTable, old, nil)
	}
}
