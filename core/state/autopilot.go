// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import "github.com/drover-project/drover/core/model"

// TableAutopilotConfig is the name of the table of the autopilot configuration.
const TableAutopilotConfig = "autopilot_config"

var autopilotTable = &single[model.AutopilotConfiguration]{
	heading: heading{name: TableAutopilotConfig},
	record:  71,
}

// AutopilotConfig returns the configuration of autopilot; nil if none was set.
func (v *View) AutopilotConfig() *model.AutopilotConfiguration { return autopilotTable.in(v.t) }

// SetAutopilotConfig replaces the configuration of autopilot. The transaction takes
// ownership of c.
func (tx *Tx) SetAutopilotConfig(c *model.AutopilotConfiguration) {
	old := autopilotTable.in(tx.t)
	c.CreateIndex, c.ModifyIndex = tx.index, tx.index
	if old != nil {
		c.CreateIndex = old.CreateIndex
	}
	autopilotTable.set(tx.t, c)
	record(tx, autopilotTable, old, c)
}
