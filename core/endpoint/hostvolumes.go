// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/schedule/feasible"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

var _ api.HostVolumes = (*Endpoint)(nil)

// hostVolumeTimeout limits a call about a volume to a node, whose plugin has a minute.
const hostVolumeTimeout = 90 * time.Second

// CreateHostVolume has a node make a volume. The volume is in state before the node makes
// it, so that nothing is made of which servers do not know.
func (e *Endpoint) CreateHostVolume(ctx context.Context, v *model.HostVolume) (*api.HostVolumeResponse, error) {
	v = v.Copy()
	v.Registered, v.Deleting = false, false
	return e.putHostVolume(ctx, v, rpc.MethodMakeVolume)
}

// RegisterHostVolume adds a directory that is on a node.
func (e *Endpoint) RegisterHostVolume(ctx context.Context, v *model.HostVolume) (*api.HostVolumeResponse, error) {
	v = v.Copy()
	v.Registered, v.Deleting = true, false
	return e.putHostVolume(ctx, v, rpc.MethodAdoptVolume)
}

func (e *Endpoint) putHostVolume(ctx context.Context, v *model.HostVolume, method string) (*api.HostVolumeResponse, error) {
	view := e.Store.View()
	old, err := existing(view, v)
	if err != nil {
		return nil, err
	}
	if err := v.Validate(); err != nil {
		return nil, errdefs.InvalidArgumentf("volume validation failed: %s", strings.Join(model.Problems(err), "; "))
	}
	if old == nil {
		v.ID = newID()
		if err := e.placeHostVolume(view, v); err != nil {
			return nil, err
		}
	}
	v.ModifyTime = e.Now().UnixNano()
	node, err := e.Nodes(v.NodeID)
	if err != nil {
		return nil, fmt.Errorf("the node of volume %q cannot be asked: %w", v.Name, err)
	}
	if old == nil {
		if _, err := e.propose(ctx, &fsm.PutHostVolume{Volume: v, New: true}); err != nil {
			return nil, err
		}
	}
	made, err := e.makeHostVolume(ctx, node, v, method)
	if err != nil {
		if old == nil {
			err = e.unmade(ctx, node, v, err)
		}
		return nil, err
	}
	v.HostPath, v.CapacityBytes = made.HostPath, made.CapacityBytes
	index, err := e.propose(ctx, &fsm.PutHostVolume{Volume: v})
	if err != nil {
		return nil, err
	}
	out := v.Copy()
	if row := e.Store.View().HostVolumeByID(v.ID); row != nil {
		out = row.Copy()
	}
	return &api.HostVolumeResponse{Volume: out, Index: index}, nil
}

// existing returns the volume that a request with an id is about, nil for a new one. What
// the request leaves out of it is filled in.
func existing(view *state.View, v *model.HostVolume) (*model.HostVolume, error) {
	if v.ID == "" {
		v.NodePool = cmp.Or(v.NodePool, poolOf(view, v.NodeID))
		return nil, nil
	}
	old := view.HostVolumeByID(v.ID)
	if old == nil || old.Namespace != v.Namespace {
		return nil, errdefs.NotFoundf("volume %q does not exist; leave the id out to create a volume", v.ID)
	}
	if old.Registered != v.Registered {
		return nil, errdefs.InvalidArgumentf("volume %q was created or registered, and cannot become the other", v.ID)
	}
	v.Name, v.PluginID = cmp.Or(v.Name, old.Name), cmp.Or(v.PluginID, old.PluginID)
	v.NodeID, v.NodePool = cmp.Or(v.NodeID, old.NodeID), old.NodePool
	if v.Registered {
		v.HostPath = cmp.Or(v.HostPath, old.HostPath)
	}
	if v.Name != old.Name || v.PluginID != old.PluginID || v.NodeID != old.NodeID {
		return nil, errdefs.InvalidArgumentf("name, plugin and node of volume %q cannot change; create another volume", v.ID)
	}
	return old, nil
}

// poolOf is the pool of a volume that names none.
func poolOf(view *state.View, nodeID string) string {
	if n := view.NodeByID(nodeID); n != nil {
		return n.NodePool
	}
	return model.NodePoolDefault
}

func (e *Endpoint) makeHostVolume(ctx context.Context, node rpc.Node, v *model.HostVolume, method string) (rpc.HostVolume, error) {
	ctx, cancel := context.WithTimeout(ctx, hostVolumeTimeout)
	defer cancel()
	made, err := rpc.Ask[rpc.HostVolume](ctx, node, method, v)
	if err != nil {
		return made, fmt.Errorf("node %s cannot make volume %q: %w", v.NodeID, v.Name, err)
	}
	return made, nil
}

// unmade removes a volume that its node could not make. If it is unknown whether the node
// has made it, the volume stays.
func (e *Endpoint) unmade(ctx context.Context, node rpc.Node, v *model.HostVolume, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if _, err := rpc.Ask[struct{}](ctx, node, rpc.MethodRemoveVolume, rpc.HostVolumeRequest{ID: v.ID}); err != nil {
		return fmt.Errorf("%w; its volume %s stays: delete it, or create it again by its id", cause, v.ID)
	}
	if _, err := e.propose(ctx, &fsm.DeleteHostVolume{ID: v.ID}); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("%w; its volume %s stays: %w", cause, v.ID, err)
	}
	return cause
}

// placeHostVolume chooses the node of a new volume: of those that may have it the one with
// the fewest volumes.
func (e *Endpoint) placeHostVolume(view *state.View, v *model.HostVolume) error {
	if v.NodeID != "" {
		return onNode(view, v)
	}
	checker := feasible.NewChecker(&model.Job{Region: e.Region, Constraints: v.Constraints}, &model.TaskGroup{})
	taken, infeasible, least := 0, 0, -1
	for n := range view.Nodes() {
		if !feasible.InPool(n.NodePool, v.NodePool) {
			continue
		}
		count := len(view.HostVolumesByNode(n.ID))
		switch {
		case hasVolume(view, n, v.Name):
			taken++
		case !n.Ready() || !hasVolumePlugin(n, v.PluginID) || checker.Check(n) != "":
			infeasible++
		case least < 0 || count < least:
			least, v.NodeID = count, n.ID
		}
	}
	if least < 0 {
		return errdefs.FailedPreconditionf("could not place volume %q: no node meets constraints: %d nodes had existing volume, 0 nodes filtered by node pool governance, %d nodes were infeasible", v.Name, taken, infeasible)
	}
	v.NodePool = view.NodeByID(v.NodeID).NodePool
	return nil
}

// onNode checks the node that a request names.
func onNode(view *state.View, v *model.HostVolume) error {
	n := view.NodeByID(v.NodeID)
	switch {
	case n == nil:
		return errdefs.NotFoundf("no such node %q", v.NodeID)
	case !feasible.InPool(n.NodePool, v.NodePool):
		return errdefs.InvalidArgumentf("node %s is in pool %q, and the volume is to be in %q", n.ID, n.NodePool, v.NodePool)
	case hasVolume(view, n, v.Name):
		return errdefs.FailedPreconditionf("node %s has a volume with the name %q; use another name", n.ID, v.Name)
	case !v.Registered && !hasVolumePlugin(n, v.PluginID):
		return errdefs.FailedPreconditionf("node %s has no plugin %q for host volumes; put it into the node's host_volume_plugin_dir", n.ID, v.PluginID)
	}
	v.NodePool = n.NodePool
	return nil
}

func hasVolume(view *state.View, n *model.Node, name string) bool {
	return n.HostVolumes[name] != nil || slices.ContainsFunc(view.HostVolumesByNode(n.ID), func(v *model.HostVolume) bool { return v.Name == name })
}

func hasVolumePlugin(n *model.Node, plugin string) bool {
	return n.Attributes["plugins.host_volume."+plugin+".version"] != ""
}

// DeleteHostVolume has the node remove a volume that no alloc uses. Nothing is placed on it
// meanwhile. If the node cannot remove it, it stays.
func (e *Endpoint) DeleteHostVolume(ctx context.Context, namespace, id string, force bool) (uint64, error) {
	v := e.Store.View().HostVolumeByID(id)
	if v == nil || v.Namespace != namespace {
		return 0, errdefs.NotFoundf("no such volume: %s", id)
	}
	if _, err := e.propose(ctx, &fsm.MarkHostVolume{ID: id, Deleting: true}); err != nil {
		return 0, err
	}
	err := e.removeHostVolume(ctx, v)
	if err != nil && !(force && (errdefs.IsUnavailable(err) || errdefs.IsNotFound(err))) {
		again := context.WithoutCancel(ctx)
		if _, unmark := e.propose(again, &fsm.MarkHostVolume{ID: id}); unmark != nil {
			err = fmt.Errorf("%w; and the volume stays marked: %w", err, unmark)
		}
		if errdefs.IsUnavailable(err) || errdefs.IsNotFound(err) {
			err = fmt.Errorf("%w; if the node never comes back, delete the volume with force, which leaves its data there", err)
		}
		return 0, err
	}
	return e.propose(ctx, &fsm.DeleteHostVolume{ID: id})
}

func (e *Endpoint) removeHostVolume(ctx context.Context, v *model.HostVolume) error {
	node, err := e.Nodes(v.NodeID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, hostVolumeTimeout)
	defer cancel()
	if _, err := rpc.Ask[struct{}](ctx, node, rpc.MethodRemoveVolume, rpc.HostVolumeRequest{ID: v.ID}); err != nil {
		return fmt.Errorf("node %s cannot delete volume %s: %w", v.NodeID, v.ID, err)
	}
	return nil
}

// DeleteVolumeClaim removes the claim of an alloc's name on a sticky volume.
func (e *Endpoint) DeleteVolumeClaim(ctx context.Context, id string) (uint64, error) {
	return e.propose(ctx, &fsm.DeleteVolumeClaim{ID: id})
}
