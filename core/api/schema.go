// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
)

// DriverSchemas are the known schemas of a driver. This is an addition of Drover to
// the API.
type DriverSchemas struct {
	Driver string
	Nodes  int // nodes that have the driver
	// Schemas in use or kept from earlier use, newest first.
	Schemas []*DriverSchema
}

// DriverSchema is the schema that some versions of a driver publish.
type DriverSchema struct {
	Driver   string
	Hash     string
	Versions []string // versions of the plugins that publish it
	Nodes    int      // nodes that have the driver with it
	Uses     []*model.DriverUse
	// UnusedSince is set if no node has the schema any more; it is removed some time
	// later.
	UnusedSince *time.Time `json:",omitempty"`
	// Schema is the body: the capabilities and the schema of a task's config.
	Schema      json.RawMessage `json:",omitempty"`
	CreateIndex uint64
	ModifyIndex uint64
}

// listDriverSchemas lists all schemas without their bodies.
func listDriverSchemas(v View, q *query) result {
	p := page[*model.DriverSchema]{items: v.DriverSchemas(), order: func(d *model.DriverSchema) order { return order{created: d.CreateIndex, id: d.Hash} }}
	return listOf(q, p, func(d *model.DriverSchema) *DriverSchema {
		out := driverSchema(d, v.DriverUses(d.Driver))
		out.Schema = nil
		return out
	})
}

func driverSchemas(v View, q *query) result {
	name := q.r.PathValue("name")
	rows, uses := v.DriverSchemasOf(name), v.DriverUses(name)
	if len(rows) == 0 && len(uses) == 0 {
		return failed(fail(http.StatusNotFound, "driver not found"))
	}
	out := &DriverSchemas{Driver: name, Schemas: []*DriverSchema{}}
	for _, u := range uses {
		if u.Detected {
			out.Nodes += u.Nodes
		}
	}
	for _, row := range rows {
		out.Schemas = append(out.Schemas, driverSchema(row, uses))
	}
	slices.SortFunc(out.Schemas, func(a, b *DriverSchema) int {
		return cmp.Or(cmp.Compare(b.CreateIndex, a.CreateIndex), cmp.Compare(a.Hash, b.Hash))
	})
	return shown(out)
}

// driverSchema returns a schema in the form of the API. uses are all uses of its
// driver.
func driverSchema(row *model.DriverSchema, uses []*model.DriverUse) *DriverSchema {
	out := &DriverSchema{
		Driver: row.Driver, Hash: row.Hash, Schema: row.Body, Versions: []string{}, Uses: []*model.DriverUse{},
		CreateIndex: row.CreateIndex, ModifyIndex: row.ModifyIndex,
	}
	if row.UnusedSince != 0 {
		at := time.Unix(0, row.UnusedSince).UTC()
		out.UnusedSince = &at
	}
	for _, u := range uses {
		if u.Hash != row.Hash {
			continue
		}
		out.Nodes += u.Nodes
		out.Uses = append(out.Uses, u)
		if !slices.Contains(out.Versions, u.Version) {
			out.Versions = append(out.Versions, u.Version)
		}
	}
	return out
}
