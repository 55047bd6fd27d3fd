// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/registry"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// filePiece is the size of a file's chunks, one per message.
const filePiece = 512 << 10

// Plugins implements rpc.Servers.
func (d *Dispatcher) Plugins(ctx context.Context, id rpc.Identity) (rpc.PluginAnswer, error) {
	view, confirmed := d.vouch(ctx)
	node, err := d.known(view, id)
	if err != nil {
		return rpc.PluginAnswer{}, err
	}
	out := rpc.PluginAnswer{Index: view.Index(), Confirmed: confirmed && !view.Cluster().Lacks(id.Seen)}
	for p := range view.PluginSpecs() {
		switch act, release := registry.NewTarget(p).For(node); act {
		case registry.Keep:
			out.Plugins = append(out.Plugins, rpc.WantedPlugin{Name: p.Name})
		case registry.Install:
			out.Plugins = append(out.Plugins, rpc.WantedPlugin{Name: p.Name, Release: release})
		case registry.Remove: // it is missing
		}
	}
	return out, nil
}

// PluginFile implements rpc.Servers.
func (d *Dispatcher) PluginFile(ctx context.Context, id rpc.Identity, digest string, take func([]byte) error) error {
	if _, err := d.known(d.cfg.Store.View(), id); err != nil {
		return err
	}
	if d.cfg.PluginFile == nil {
		return errdefs.FailedPreconditionf("this server keeps no plugin files")
	}
	file, err := d.cfg.PluginFile(ctx, digest)
	if err != nil {
		return err
	}
	defer file.Close()
	buf := make([]byte, filePiece)
	for ctx.Err() == nil {
		n, err := io.ReadFull(file, buf)
		if n > 0 {
			if err := take(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the plugin file %s: %w", digest, err)
		}
	}
	return ctx.Err()
}

// tellPlugins notifies the nodes that a change of a plugin concerns: those that
// entered or left flight, or all nodes if it concerns all.
func (d *Dispatcher) tellPlugins(c *state.Change) {
	old, _ := c.Old.(*model.PluginSpec)
	now, _ := c.New.(*model.PluginSpec)
	if concernsAll(old, now) {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, s := range d.sessions {
			s.askPlugins(c.Index)
		}
		return
	}
	for _, id := range moved(old, now) {
		d.mu.Lock()
		s := d.sessions[id]
		d.mu.Unlock()
		if s != nil {
			s.askPlugins(c.Index)
		}
	}
}

// concernsAll reports whether a change may concern every node: the target has changed,
// the plugin was removed, or nodes may have it without admission.
func concernsAll(old, now *model.PluginSpec) bool {
	switch {
	case now == nil:
		return true
	case old == nil:
		return now.Rollout.Status == model.PluginRolloutComplete
	case old.NodePool != now.NodePool || !reflect.DeepEqual(old.Datacenters, now.Datacenters) || !reflect.DeepEqual(old.Constraints, now.Constraints):
		return true
	}
	return old.Rollout.Status != now.Rollout.Status && now.Rollout.Status == model.PluginRolloutComplete
}

// moved returns the nodes that entered or left flight.
func moved(old, now *model.PluginSpec) []string {
	var out []string
	for _, pair := range [2][2]*model.PluginSpec{{old, now}, {now, old}} {
		if pair[1] == nil {
			continue
		}
		for _, a := range pair[1].Rollout.InFlight {
			if pair[0] == nil || pair[0].Rollout.Admits(a.NodeID) == nil {
				out = append(out, a.NodeID)
			}
		}
	}
	return out
}

// askPlugins makes the next push tell the node to request its plugins.
func (s *session) askPlugins(index uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.full { // a full push says so anyway
		s.index, s.ask = max(s.index, index), true
	}
	s.signal()
}
