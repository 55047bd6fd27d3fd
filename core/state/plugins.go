// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"iter"

	"github.com/drover-project/drover/core/model"
)

var pluginTable = &kind[model.PluginSpec]{
	heading: heading{name: TablePluginSpecs},
	schema:  schema[model.PluginSpec]{id: func(p *model.PluginSpec) string { return p.Name }},
	at:      func(t *tables) **table[model.PluginSpec] { return &t.plugins },
	record:  60,
}

// PluginSpecByName returns a plugin of the registry.
func (v *View) PluginSpecByName(name string) *model.PluginSpec { return v.t.plugins.get(name) }

// PluginSpecs yields the plugins of the registry, ordered by name.
func (v *View) PluginSpecs() iter.Seq[*model.PluginSpec] { return v.t.plugins.all("") }

// PluginSpecCount returns how many plugins the registry has.
func (v *View) PluginSpecCount() int { return v.t.plugins.len() }

// UpsertPluginSpec stores a plugin of the registry. The transaction takes ownership of
// p.
func (tx *Tx) UpsertPluginSpec(p *model.PluginSpec) {
	p.CreateIndex, p.ModifyIndex = tx.index, tx.index
	if old := tx.t.plugins.get(p.Name); old != nil {
		p.CreateIndex = old.CreateIndex
	}
	record(tx, pluginTable, tx.t.plugins.put(p), p)
}

// DeletePluginSpec removes a plugin of the registry, if it exists.
func (tx *Tx) DeletePluginSpec(name string) {
	if old := tx.t.plugins.delete(name); old != nil {
		record(tx, pluginTable, old, nil)
	}
}
