// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// AddDriverSchemas stores schemas of drivers; existing ones are skipped.
type AddDriverSchemas struct{ Schemas []*model.DriverSchema }

func (*AddDriverSchemas) kind() byte { return kindAddDriverSchemas }

func (c *AddDriverSchemas) apply(tx *state.Tx) error {
	for _, s := range c.Schemas {
		if s == nil || s.Hash == "" || s.Driver == "" {
			return errdefs.InvalidArgumentf("a driver's schema without a hash or a driver")
		}
	}
	var first error
	for _, s := range c.Schemas {
		if err := tx.AddDriverSchema(s); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// MarkDriverSchemas records since when no node uses the schemas. Schemas that are in
// use or already marked are skipped.
type MarkDriverSchemas struct {
	Hashes []string
	At     int64 // Unix ns
}

func (*MarkDriverSchemas) kind() byte { return kindMarkDriverSchemas }

func (c *MarkDriverSchemas) apply(tx *state.Tx) error {
	for _, hash := range c.Hashes {
		tx.MarkDriverSchema(hash, c.At)
	}
	return nil
}

// DeleteDriverSchemas removes schemas that no node uses. If UnusedSince (Unix ns) is
// set, schemas that have been used since then are skipped.
type DeleteDriverSchemas struct {
	Hashes      []string
	UnusedSince int64
}

func (*DeleteDriverSchemas) kind() byte { return kindDeleteDriverSchemas }

func (c *DeleteDriverSchemas) apply(tx *state.Tx) error {
	for _, hash := range c.Hashes {
		tx.DeleteDriverSchema(hash, c.UnusedSince)
	}
	return nil
}
