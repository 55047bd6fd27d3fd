// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import "github.com/drover-project/drover/core/model"

// TableSchedulerConfig is the name of the table of scheduler config.
const TableSchedulerConfig = "scheduler_config"

var configTable = &single[model.SchedulerConfiguration]{
	heading: heading{name: TableSchedulerConfig},
	record:  5,
}

// SchedulerConfig returns the scheduler configuration. It is never nil.
func (v *View) SchedulerConfig() *model.SchedulerConfiguration { return configTable.in(v.t) }

// SetSchedulerConfig replaces the scheduler configuration. The transaction takes
// ownership of c.
func (tx *Tx) SetSchedulerConfig(c *model.SchedulerConfiguration) {
	old := configTable.in(tx.t)
	c.CreateIndex, c.ModifyIndex = tx.index, tx.index
	if old != nil {
		c.CreateIndex = old.CreateIndex
	}
	configTable.set(tx.t, c)
	record(tx, configTable, old, c)
}
