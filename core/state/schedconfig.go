// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import "github.com/drover-project/drover/core/model"

// configKind declares the scheduler configuration: a table of one row.
type configKind struct{ heading }

var configTable = &configKind{heading{name: TableSchedulerConfig}}

func (*configKind) start(*tables)                    {}
func (*configKind) publish(into, writer, _ *tables)  { into.config = writer.config }
func (*configKind) rollback(into, _, before *tables) { into.config = before.config }
func (*configKind) len(*tables) int                  { return -1 }
func (*configKind) wake(any, wakeFunc)               {} // it is watched as a whole

func (*configKind) save(s *saver, t *tables) {
	if t.config != nil {
		s.record(recConfig, t.config)
	}
}

func (*configKind) loads() map[byte]func(*loader, []byte) error {
	return map[byte]func(*loader, []byte) error{recConfig: func(l *loader, data []byte) error {
		l.tx.t.config = &model.SchedulerConfiguration{}
		return l.codec.Decode(data, l.tx.t.config)
	}}
}

// SchedulerConfig returns the scheduler configuration; there always is one.
func (v *View) SchedulerConfig() *model.SchedulerConfiguration { return v.t.config }

// SetSchedulerConfig replaces the scheduler configuration. The transaction owns
// c from now on.
func (tx *Tx) SetSchedulerConfig(c *model.SchedulerConfiguration) {
	old := tx.t.config
	c.CreateIndex, c.ModifyIndex = tx.index, tx.index
	if old != nil {
		c.CreateIndex = old.CreateIndex
	}
	tx.t.config = c
	record(tx, configTable, old, c)
}
