// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import "github.com/drover-project/drover/core/model"

var configTable = &single[model.SchedulerConfiguration]{
	heading: heading{name: TableSchedulerConfig},
	at:      func(t *tables) **model.SchedulerConfiguration { return &t.config },
	record:  5,
}

// SchedulerConfig returns the scheduler configuration. It is never nil.
func (v *View) SchedulerConfig() *model.SchedulerConfiguration { return v.t.config }

// SetSchedulerConfig replaces the scheduler configuration. The transaction takes
// ownership of c.
func (tx *Tx) SetSchedulerConfig(c *model.SchedulerConfiguration) {
	old := tx.t.config
	c.CreateIndex, c.ModifyIndex = tx.index, tx.index
	if old != nil {
		c.CreateIndex = old.CreateIndex
	}
	tx.t.config = c
	record(tx, configTable, old, c)
}
