// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"maps"
	"slices"

	"github.com/drover-project/drover/core/driverschema"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// maxDrivers is the maximum number of schemas that a lease requests.
const maxDrivers = 64

// maxVersion limits the length of a plugin's version in a node's report, in bytes.
const maxVersion = 64

// namedDrivers returns the drivers of a node, with valid hashes and short versions, because
// the state counts nodes by hash and version.
func namedDrivers(drivers map[string]*model.DriverInfo) map[string]*model.DriverInfo {
	out := maps.Clone(drivers)
	for name, info := range out {
		if info == nil || (info.SchemaHash == "" || driverschema.IsHash(info.SchemaHash)) && len(info.PluginVersion) <= maxVersion {
			continue
		}
		c := *info
		if !driverschema.IsHash(c.SchemaHash) {
			c.SchemaHash = ""
		}
		c.PluginVersion = c.PluginVersion[:min(len(c.PluginVersion), maxVersion)]
		out[name] = &c
	}
	return out
}

// missing returns the hashes of schemas of a node's drivers that the state does not
// have yet and has room for.
func missing(view *state.View, node *model.Node) []string {
	var out []string
	for name, info := range node.Drivers {
		if info == nil || info.SchemaHash == "" || len(out) == maxDrivers {
			continue
		}
		if view.DriverSchemaByHash(info.SchemaHash) == nil && view.FitsDriverSchema(name) == nil {
			out = append(out, info.SchemaHash)
		}
	}
	slices.Sort(out)
	return out
}

// PutDriverSchemas implements rpc.Servers.
func (d *Dispatcher) PutDriverSchemas(ctx context.Context, id rpc.Identity, bodies [][]byte) error {
	if _, err := d.known(d.cfg.Store.View(), id); err != nil {
		return err
	}
	index, err := d.leader.PutDriverSchemas(ctx, id, bodies)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, propose.Limit)
	defer cancel()
	return d.cfg.Store.Reach(ctx, index) // the next lease does not ask for them again
}

// PutDriverSchemas implements Leader. Many nodes send the same schema at the same
// time when a driver is new: they are handled one by one, and all but the first find
// it stored.
func (l leading) PutDriverSchemas(ctx context.Context, id rpc.Identity, bodies [][]byte) (uint64, error) {
	d := l.d
	select {
	case d.schemas <- struct{}{}:
		defer func() { <-d.schemas }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	view := d.cfg.Store.View()
	node, err := identify(view, id)
	if err != nil {
		return 0, err
	}
	if len(bodies) > maxDrivers {
		return 0, errdefs.InvalidArgumentf("%d schemas of drivers at once; send at most %d", len(bodies), maxDrivers)
	}
	cmd := &fsm.AddDriverSchemas{}
	for _, data := range bodies {
		row, err := schemaRow(node, data)
		if err != nil {
			return 0, err
		}
		if view.DriverSchemaByHash(row.Hash) == nil {
			cmd.Schemas = append(cmd.Schemas, row)
		}
	}
	if len(cmd.Schemas) == 0 {
		return view.Index(), nil
	}
	return d.propose(ctx, cmd)
}

// schemaRow reads a body that a driver of the node must publish.
func schemaRow(node *model.Node, data []byte) (*model.DriverSchema, error) {
	body, err := driverschema.Decode(data)
	if err != nil {
		return nil, err
	}
	hash := driverschema.Hash(data)
	if info := node.Drivers[body.Driver]; info == nil || info.SchemaHash != hash {
		return nil, errdefs.InvalidArgumentf("driver %q of node %q publishes no schema %s; register the node first", body.Driver, node.ID, hash)
	}
	return &model.DriverSchema{Hash: hash, Driver: body.Driver, Body: data}, nil
}
