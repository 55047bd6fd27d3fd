// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Limits of the number of stored schemas, in total and per driver, so that a driver
// whose schema differs at each start displaces only its own schemas.
const (
	maxDriverSchemas = 1024
	maxPerDriver     = 64
)

const byDriver = 0 // the secondary index of driver schemas

// TableDriverSchemas is the name of the table of driver schemas.
const TableDriverSchemas = "driver_schemas"

var driverSchemaTable = &kind[model.DriverSchema]{
	heading: heading{name: TableDriverSchemas},
	schema: schema[model.DriverSchema]{
		id:          func(s *model.DriverSchema) string { return s.Hash },
		secondaries: []secondary[model.DriverSchema]{byDriver: {name: "driver", key: func(s *model.DriverSchema) string { return s.Driver }}},
	},
	record: 61,
}

// Driver uses are derived from nodes, so they are not saved.
var driverUseTable = &kind[model.DriverUse]{
	schema: schema[model.DriverUse]{id: driverUseID},
}

func driverUseID(u *model.DriverUse) string {
	return strings.Join([]string{u.Driver, u.Hash, u.Version, u.Datacenter, u.NodePool, strconv.FormatBool(u.Detected)}, "\x00")
}

// DriverSchemaByHash returns the schema with a hash.
func (v *View) DriverSchemaByHash(hash string) *model.DriverSchema {
	return driverSchemaTable.in(v.t).get(hash)
}

// DriverSchemas yields all schemas ordered by hash.
func (v *View) DriverSchemas() iter.Seq[*model.DriverSchema] {
	return driverSchemaTable.in(v.t).all("")
}

// DriverSchemasOf returns all stored schemas of a driver, including unused ones.
func (v *View) DriverSchemasOf(driver string) []*model.DriverSchema {
	return driverSchemaTable.in(v.t).list(byDriver, driver)
}

// DriverUses returns the uses of a driver, ordered by schema, version, datacenter and
// pool.
func (v *View) DriverUses(driver string) []*model.DriverUse { return v.driverUses(driver) }

// DriverSchemaInUse reports whether a node has the driver with the schema.
func (v *View) DriverSchemaInUse(s *model.DriverSchema) bool {
	return len(v.driverUses(s.Driver, s.Hash)) > 0
}

// driverUses returns the uses whose ids begin with parts.
func (v *View) driverUses(parts ...string) []*model.DriverUse {
	prefix := strings.Join(parts, "\x00") + "\x00"
	var out []*model.DriverUse
	for u := range driverUseTable.in(v.t).all(prefix) {
		if !strings.HasPrefix(driverUseID(u), prefix) {
			break
		}
		out = append(out, u)
	}
	return out
}

// FitsDriverSchema returns an error if no further schema of the driver can be stored.
func (v *View) FitsDriverSchema(driver string) error {
	mine := v.DriverSchemasOf(driver)
	if len(mine) < maxPerDriver && driverSchemaTable.in(v.t).len() < maxDriverSchemas {
		return nil
	}
	if oldestUnused(v, mine) != nil {
		return nil
	}
	return errdefs.ResourceExhaustedf("%d schemas of driver %q and %d in all are kept; at most %d and %d can be: run fewer versions of the driver at a time", len(mine), driver, driverSchemaTable.in(v.t).len(), maxPerDriver, maxDriverSchemas)
}

func oldestUnused(v *View, of []*model.DriverSchema) *model.DriverSchema {
	var oldest *model.DriverSchema
	for _, s := range of {
		if !v.DriverSchemaInUse(s) && (oldest == nil || s.CreateIndex < oldest.CreateIndex || s.CreateIndex == oldest.CreateIndex && s.Hash < oldest.Hash) {
			oldest = s
		}
	}
	return oldest
}

// AddDriverSchema stores a schema unless it exists. If there is no room, it first
// removes the driver's oldest schema that no node uses. The transaction takes
// ownership of s.
func (tx *Tx) AddDriverSchema(s *model.DriverSchema) error {
	if driverSchemaTable.in(tx.t).get(s.Hash) != nil {
		return nil
	}
	v := tx.View()
	if err := v.FitsDriverSchema(s.Driver); err != nil {
		return err
	}
	mine := v.DriverSchemasOf(s.Driver)
	if len(mine) >= maxPerDriver || driverSchemaTable.in(tx.t).len() >= maxDriverSchemas {
		tx.deleteDriverSchema(oldestUnused(v, mine).Hash)
	}
	s.CreateIndex, s.UnusedSince = tx.index, 0
	tx.writeDriverSchema(s)
	return nil
}

func (tx *Tx) writeDriverSchema(s *model.DriverSchema) {
	s.ModifyIndex = tx.index
	record(tx, driverSchemaTable, driverSchemaTable.in(tx.t).put(s), s)
}

func (tx *Tx) deleteDriverSchema(hash string) {
	record(tx, driverSchemaTable, driverSchemaTable.in(tx.t).delete(hash), nil)
}

// MarkDriverSchema sets the time since which no node uses the schema, in Unix ns.
func (tx *Tx) MarkDriverSchema(hash string, at int64) {
	s := driverSchemaTable.in(tx.t).get(hash)
	if s == nil || s.UnusedSince != 0 || tx.View().DriverSchemaInUse(s) {
		return
	}
	c := *s
	c.UnusedSince = at
	tx.writeDriverSchema(&c)
}

// DeleteDriverSchema removes a schema if no node uses it, and has not since the given
// time (Unix ns; 0: regardless of the time).
func (tx *Tx) DeleteDriverSchema(hash string, since int64) {
	s := driverSchemaTable.in(tx.t).get(hash)
	if s == nil || tx.View().DriverSchemaInUse(s) || since != 0 && (s.UnusedSince == 0 || s.UnusedSince > since) {
		return
	}
	tx.deleteDriverSchema(hash)
}

// accountDrivers updates the driver uses after a change of a node.
func (tx *Tx) accountDrivers(old, node *model.Node) {
	if sameDrivers(old, node) {
		return
	}
	for _, side := range []struct {
		node *model.Node
		by   int
	}{{old, -1}, {node, 1}} {
		if side.node == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(side.node.Drivers)) { // sorted, so that all servers apply it in the same order
			if info := side.node.Drivers[name]; info != nil {
				tx.countDriver(&model.DriverUse{
					Driver: name, Hash: info.SchemaHash, Version: info.PluginVersion,
					Datacenter: side.node.Datacenter, NodePool: side.node.NodePool, Detected: info.Detected,
				}, side.by)
			}
		}
	}
}

func sameDrivers(a, b *model.Node) bool {
	if a == nil || b == nil || a.Datacenter != b.Datacenter || a.NodePool != b.NodePool || len(a.Drivers) != len(b.Drivers) {
		return false
	}
	for name, x := range a.Drivers {
		y := b.Drivers[name]
		if x == nil || y == nil || x.SchemaHash != y.SchemaHash || x.PluginVersion != y.PluginVersion || x.Detected != y.Detected {
			return false
		}
	}
	return true
}

// countDriver adds by nodes to a use. It takes ownership of u.
func (tx *Tx) countDriver(u *model.DriverUse, by int) {
	id := driverUseID(u)
	if old := driverUseTable.in(tx.t).get(id); old != nil {
		u.Nodes = old.Nodes
	}
	if u.Nodes += by; u.Nodes <= 0 {
		driverUseTable.in(tx.t).delete(id)
		return
	}
	driverUseTable.in(tx.t).put(u)
	if s := driverSchemaTable.in(tx.t).get(u.Hash); s != nil && s.UnusedSince != 0 && !tx.restore {
		c := *s
		c.UnusedSince = 0
		tx.writeDriverSchema(&c)
	}
}
