// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

var _ api.CSIVolumes = (*Endpoint)(nil)

// CreateCSIVolume has a driver make a volume, or grows and changes the one of its id.
func (e *Endpoint) CreateCSIVolume(ctx context.Context, v *model.CSIVolume, secrets model.VolumeSecrets) (*model.CSIVolume, uint64, error) {
	v = v.Copy()
	view := e.Store.View()
	old, p, err := e.admitCSIVolume(view, v, secrets, false)
	switch {
	case err != nil:
		return nil, 0, err
	case old != nil && old.ExternalID != "":
		return e.changeCSIVolume(ctx, old, v, secrets)
	case !can(p, (*model.CSIControllerInfo).Creates):
		return nil, 0, errdefs.FailedPreconditionf("CSI plugin %s does not make volumes, or has no controller: register a volume that its storage system has, with drover volume register", v.PluginID)
	}
	if err := e.sealSecrets(ctx, v, old, secrets); err != nil {
		return nil, 0, err
	}
	// The row comes first: nothing is made of which servers do not know.
	v.State, v.ModifyTime = model.CSIVolumeCreating, e.Now().UnixNano()
	if _, err := e.propose(ctx, &fsm.PutCSIVolume{Volume: v, New: old == nil}); err != nil {
		return nil, 0, err
	}
	made, err := e.makeCSIVolume(ctx, v)
	if err != nil {
		return nil, 0, e.csiUnmade(ctx, v, old == nil, err)
	}
	return e.takeCSIVolume(ctx, v, old == nil, made)
}

// takeCSIVolume notes the volume with which a driver has answered, one after the other, so that
// two requests do not get the same.
func (e *Endpoint) takeCSIVolume(ctx context.Context, v *model.CSIVolume, isNew bool, made rpc.StorageDescription) (*model.CSIVolume, uint64, error) {
	e.taking.Lock()
	defer e.taking.Unlock()
	if err := e.csiOwned(v, made.ID); err != nil {
		return nil, 0, e.csiUnmade(ctx, v, isNew, fmt.Errorf("controller create volume: %w", err))
	}
	v.State, v.ExternalID, v.Capacity, v.Context, v.Topologies = "", made.ID, made.CapacityBytes, made.Context, topologiesOf(made.Topologies)
	return e.putCSIVolume(ctx, v, false)
}

// RegisterCSIVolume adds a volume that a storage system has, or changes the one of its id.
func (e *Endpoint) RegisterCSIVolume(ctx context.Context, v *model.CSIVolume, secrets model.VolumeSecrets) (*model.CSIVolume, uint64, error) {
	v = v.Copy()
	old, p, err := e.admitCSIVolume(e.Store.View(), v, secrets, true)
	if err != nil {
		return nil, 0, err
	}
	if old != nil && old.ExternalID != "" && old.ExternalID != v.ExternalID {
		return nil, 0, errdefs.InvalidArgumentf("the external id of volume %q cannot change; register another volume", v.ID)
	}
	if err := e.sealSecrets(ctx, v, old, secrets); err != nil {
		return nil, 0, err
	}
	if p.ControllerRequired || len(p.Controllers) > 0 {
		call := rpc.StorageCall{Plugin: v.PluginID, ID: v.ExternalID, Access: accessesOf(v), Context: v.Context, Parameters: v.Parameters}
		// A driver that cannot say whether the volume fits is not in the way.
		if _, err := askController[struct{}](ctx, e, v, nil, rpc.MethodCSIValidate, call); err != nil && !errdefs.IsUnimplemented(err) {
			return nil, 0, unconfirmed(v.ExternalID, err)
		}
	}
	v.ModifyTime = e.Now().UnixNano()
	return e.putCSIVolume(ctx, v, old == nil)
}

// unconfirmed says why a volume cannot be registered. If the storage system does not have the
// volume, it uses the words of the reference.
func unconfirmed(externalID string, cause error) error {
	if errdefs.IsNotFound(cause) {
		return fmt.Errorf("controller validate volume: CSI.ControllerValidateVolume: volume %q could not be found: %w", externalID, cause)
	}
	return fmt.Errorf("controller validate volume: volume %q cannot be registered: %w", externalID, cause)
}

// admitCSIVolume checks a request for a volume. It returns the existing volume with its id
// (nil if there is none) and the driver.
func (e *Endpoint) admitCSIVolume(view *state.View, v *model.CSIVolume, secrets model.VolumeSecrets, register bool) (*model.CSIVolume, *model.CSIPlugin, error) {
	v.State, v.Attachments, v.SecretsKeyID, v.SealedSecrets = "", nil, "", nil
	v.Name = cmp.Or(v.Name, v.ID)
	// A client sends back what it has read, in which there are nulls.
	v.Topologies = slices.DeleteFunc(v.Topologies, func(t *model.CSITopology) bool { return t == nil })
	old := view.CSIVolumeByID(v.Namespace, v.ID)
	if register {
		if old != nil {
			keepUnsaid(old, v)
		}
		v.ExternalID = cmp.Or(v.ExternalID, v.ID) // as with the reference
	} else {
		if old != nil && v.ExternalID == old.ExternalID {
			v.ExternalID = "" // a client sends back what it has read
		}
		v.Capacity, v.Context, v.Topologies = 0, nil, nil
	}
	if err := v.Validate(register); err != nil {
		return nil, nil, invalidCSIVolume(v, register, err)
	}
	if err := secrets.Validate(); err != nil {
		return nil, nil, errdefs.InvalidArgumentf("validation: %s", strings.Join(model.Problems(err), "; "))
	}
	switch {
	case old != nil && old.State == model.CSIVolumeDeleting:
		return nil, nil, errdefs.FailedPreconditionf("volume %q is being deleted; wait until it is gone", v.ID)
	case old != nil && old.PluginID != v.PluginID:
		return nil, nil, errdefs.InvalidArgumentf("the plugin of volume %q cannot change; create another volume", v.ID)
	}
	if old != nil {
		if err := csiStillOffers(view, old, v); err != nil {
			return nil, nil, err
		}
	}
	p := view.CSIPluginByID(v.PluginID)
	if p == nil {
		return nil, nil, noPlugin(v.PluginID)
	}
	if why := p.Contested(); why != "" {
		if old == nil || old.Driver == "" {
			return nil, nil, errdefs.FailedPreconditionf("%s", why)
		}
		p = p.Of(old.Driver)
	}
	v.Driver, v.Attaches = p.Provider, old != nil && old.Attaches
	if attaches, known := p.ControllerAttaches(); known {
		v.Attaches = attaches
	}
	return old, p, nil
}

// invalidCSIVolume says what is wrong with a volume. If that is an access mode that does not
// exist and nothing else, it says so in the reference's words; the command line says which
// modes there are before it asks.
func invalidCSIVolume(v *model.CSIVolume, register bool, err error) error {
	problems := model.Problems(err)
	if mode := v.UnknownAccessMode(); mode != "" && len(problems) == 1 && !register {
		return model.ValidationError{fmt.Errorf("controller create volume: CSI.ControllerCreateVolume: unknown volume access mode: %.80s", mode)}
	}
	return errdefs.InvalidArgumentf("validation: %s", strings.Join(problems, "; "))
}

func noPlugin(id string) error {
	return errdefs.NotFoundf("no CSI plugin named: %s could be found", id)
}

func (e *Endpoint) putCSIVolume(ctx context.Context, v *model.CSIVolume, isNew bool) (*model.CSIVolume, uint64, error) {
	index, err := e.propose(ctx, &fsm.PutCSIVolume{Volume: v, New: isNew})
	if err != nil {
		return nil, 0, err
	}
	if row := e.Store.View().CSIVolumeByID(v.Namespace, v.ID); row != nil {
		v = row
	}
	return v, index, nil
}

func (e *Endpoint) makeCSIVolume(ctx context.Context, v *model.CSIVolume) (rpc.StorageDescription, error) {
	call := rpc.StorageCall{
		Plugin: v.PluginID, Name: v.Name, Capacity: rpc.StorageCapacity{RequiredBytes: v.RequestedCapacityMin, LimitBytes: v.RequestedCapacityMax},
		Access: accessesOf(v), Parameters: v.Parameters, SourceSnapshot: v.SnapshotID, SourceVolume: v.CloneID, Topology: requirementOf(v.RequestedTopologies),
	}
	made, err := askController[rpc.StorageDescription](ctx, e, v, (*model.CSIControllerInfo).Creates, rpc.MethodCSICreate, call)
	if err == nil && made.ID == "" {
		err = errdefs.Internalf("the driver answered without the id of the volume")
	}
	if err != nil {
		return made, fmt.Errorf("controller create volume: %w", err)
	}
	return made, nil
}

// csiOwned returns an error if another row has the volume with which a driver has answered:
// drivers give the same volume for the same name, and two rows for it would have two
// writers.
func (e *Endpoint) csiOwned(v *model.CSIVolume, externalID string) error {
	for _, other := range e.Store.View().CSIVolumesByPlugin(v.PluginID) {
		if other.ExternalID == externalID && (other.ID != v.ID || other.Namespace != v.Namespace) {
			return errdefs.AlreadyExistsf("the driver answers with %q, which is volume %q of namespace %q; give this one a name of its own", externalID, other.ID, other.Namespace)
		}
	}
	return nil
}

// csiUnmade forgets a new volume that its driver has refused. If it is unknown whether the
// driver has made it, the volume stays.
func (e *Endpoint) csiUnmade(ctx context.Context, v *model.CSIVolume, isNew bool, cause error) error {
	if !isNew {
		return cause
	}
	switch errdefs.ClassOf(cause) {
	case errdefs.InvalidArgument, errdefs.NotFound, errdefs.AlreadyExists, errdefs.FailedPrecondition, errdefs.ResourceExhausted, errdefs.Unimplemented, errdefs.PermissionDenied:
		ctx = context.WithoutCancel(ctx)
		if _, err := e.propose(ctx, &fsm.DeleteCSIVolume{Namespace: v.Namespace, ID: v.ID}); err == nil || errdefs.IsNotFound(err) {
			return cause
		}
	}
	return fmt.Errorf("%w; it is unknown whether the driver has made the volume: create it again, which is safe, or forget it with drover volume deregister", cause)
}

// changeCSIVolume grows a volume and changes what else may change of it.
func (e *Endpoint) changeCSIVolume(ctx context.Context, old, v *model.CSIVolume, secrets model.VolumeSecrets) (*model.CSIVolume, uint64, error) {
	if err := csiFixed(old, v); err != nil {
		return nil, 0, err
	}
	row := old.Copy()
	change(row, v)
	if err := e.sealSecrets(ctx, row, old, secrets); err != nil {
		return nil, 0, err
	}
	nodes := false
	if row.RequestedCapacityMin > row.Capacity {
		access := accessesOf(row)
		call := rpc.StorageCall{
			Plugin: row.PluginID, ID: row.ExternalID, Access: access[:1],
			Capacity: rpc.StorageCapacity{RequiredBytes: row.RequestedCapacityMin, LimitBytes: row.RequestedCapacityMax},
		}
		grown, err := askController[rpc.StorageExpansion](ctx, e, row, func(c *model.CSIControllerInfo) bool { return c.SupportsExpand }, rpc.MethodCSIExpand, call)
		if err != nil {
			return nil, 0, fmt.Errorf("controller expand volume %q: %w", row.ID, err)
		}
		row.Capacity, nodes = grown.CapacityBytes, grown.NodeExpansion
	} else {
		nodes = v.RequestedCapacityMin > 0 // one of them may have failed to grow it before
	}
	row.ModifyTime = e.Now().UnixNano()
	out, index, err := e.putCSIVolume(ctx, row, false)
	if err == nil && nodes {
		err = e.growOnNodes(ctx, out)
	}
	return out, index, err
}

// growOnNodes grows what nodes have of a volume. A node that is out of reach grows it when it
// is staged there the next time.
func (e *Endpoint) growOnNodes(ctx context.Context, v *model.CSIVolume) error {
	done := map[string]bool{}
	for _, a := range e.Store.View().CSIVolumeHolders(v.Namespace, v.ID) {
		if done[a.NodeID] {
			continue
		}
		done[a.NodeID] = true
		call := rpc.StorageCall{Plugin: v.PluginID, ID: v.ExternalID, Access: accessesOf(v)[:1], Capacity: rpc.StorageCapacity{RequiredBytes: v.Capacity}}
		if err := e.askStorageNode(ctx, v, a.NodeID, rpc.MethodCSINodeExpand, call); err != nil && !errdefs.IsUnavailable(err) {
			return fmt.Errorf("volume %q has %d bytes, and node %s could not grow its file system: %w; repeat the command", v.ID, v.Capacity, a.NodeID, err)
		}
	}
	return nil
}

// askStorageNode makes a call about a volume to the node's part of its driver.
func (e *Endpoint) askStorageNode(ctx context.Context, v *model.CSIVolume, nodeID, method string, call rpc.StorageCall) (err error) {
	node, err := e.Nodes(nodeID)
	if err != nil {
		return err
	}
	if call.Secrets, err = e.openSecrets(v); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, storageTimeout)
	defer cancel()
	_, err = rpc.Ask[rpc.StorageExpanded](ctx, node, method, call)
	return err
}

// DeleteCSIVolume has the driver remove a volume that no alloc uses. If secrets are
// given, they replace the stored ones.
func (e *Endpoint) DeleteCSIVolume(ctx context.Context, namespace, id string, secrets model.VolumeSecrets) (uint64, error) {
	v := e.Store.View().CSIVolumeByID(namespace, id)
	if v == nil {
		return 0, errdefs.NotFoundf("volume not found: %s", id)
	}
	if v.ExternalID == "" {
		return 0, errdefs.FailedPreconditionf("it is unknown whether the driver has made volume %q: create it again, which is safe, and delete it then, or forget it with drover volume deregister", id)
	}
	if _, err := e.propose(ctx, &fsm.MarkCSIVolume{Namespace: namespace, ID: id, Deleting: true, Now: e.Now().UnixNano()}); err != nil {
		return 0, err
	}
	call := rpc.StorageCall{Plugin: v.PluginID, ID: v.ExternalID, Secrets: secrets}
	if _, err := askController[struct{}](ctx, e, v, (*model.CSIControllerInfo).Creates, rpc.MethodCSIDelete, call); err != nil {
		err = fmt.Errorf("controller delete volume %q: %w", id, err)
		if _, unmark := e.propose(context.WithoutCancel(ctx), &fsm.MarkCSIVolume{Namespace: namespace, ID: id, Now: e.Now().UnixNano()}); unmark != nil {
			err = fmt.Errorf("%w; and the volume stays marked: %w", err, unmark)
		}
		return 0, err
	}
	return e.propose(ctx, &fsm.DeleteCSIVolume{Namespace: namespace, ID: id})
}

// DeregisterCSIVolume forgets a volume. Its data stays.
func (e *Endpoint) DeregisterCSIVolume(ctx context.Context, namespace, id string, force bool) (uint64, error) {
	return e.propose(ctx, &fsm.DeleteCSIVolume{Namespace: namespace, ID: id, Force: force})
}

// detachWait is how long DetachCSIVolume waits.
const detachWait = 30 * time.Second

// DetachCSIVolume tries at once to detach a volume that no alloc of a node holds, and waits
// until it is.
func (e *Endpoint) DetachCSIVolume(ctx context.Context, namespace, id, nodeID string) (uint64, error) {
	view := e.Store.View()
	v := view.CSIVolumeByID(namespace, id)
	if v == nil {
		return 0, errdefs.NotFoundf("volume not found: %s", id)
	}
	for _, a := range view.CSIVolumeHolders(namespace, id) {
		if a.NodeID == nodeID {
			return 0, errdefs.FailedPreconditionf("volume %q is held by alloc %s (%s) on the node; stop it, and the volume is detached", id, a.ID, a.Name)
		}
	}
	at := v.Attachments[nodeID]
	if at == nil {
		return 0, errdefs.NotFoundf("Unknown allocation") // the reference's words; the command line says more
	}
	now := *at
	now.NextTry = 0
	if _, err := e.propose(ctx, &fsm.PutCSIAttachment{Namespace: namespace, ID: id, Attachment: &now}); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, detachWait)
	defer cancel()
	for {
		changed := e.Store.Watch(ctx, state.Key{Table: state.TableCSIVolumes, Value: state.JobKey(namespace, id)})
		view = e.Store.View()
		v = view.CSIVolumeByID(namespace, id)
		if v == nil || v.Attachments[nodeID] == nil {
			return view.Index(), nil
		}
		if at := v.Attachments[nodeID]; at.Failures > now.Failures {
			return 0, errdefs.Unavailablef("volume %q could not be detached from node %s: %s; servers try again at %s", id, nodeID, at.LastError, time.Unix(0, at.NextTry).UTC().Format(time.RFC3339))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, errdefs.DeadlineExceededf("volume %q is still being detached from node %s; servers go on with it", id, nodeID)
		}
	}
}

// can reports whether a healthy controller of a driver can do something.
func can(p *model.CSIPlugin, what func(*model.CSIControllerInfo) bool) bool {
	return p != nil && slices.ContainsFunc(slices.Collect(maps.Values(p.Controllers)), func(c *model.CSIInfo) bool {
		return c.ControllerInfo != nil && what(c.ControllerInfo)
	})
}

func accessesOf(v *model.CSIVolume) (out []rpc.StorageAccess) {
	for _, c := range v.RequestedCapabilities {
		if c != nil {
			out = append(out, rpc.NewStorageAccess(c.AccessMode, c.AttachmentMode, v.MountOptions.Merge(nil)))
		}
	}
	return out
}

func topologiesOf(from []rpc.StorageTopology) (out []*model.CSITopology) {
	for _, t := range from {
		out = append(out, &model.CSITopology{Segments: t})
	}
	return out
}

func requirementOf(r *model.CSITopologyRequest) *rpc.StorageTopologies {
	if r == nil {
		return nil
	}
	segments := func(from []*model.CSITopology) (out []rpc.StorageTopology) {
		for _, t := range from {
			if t != nil {
				out = append(out, t.Segments)
			}
		}
		return out
	}
	return &rpc.StorageTopologies{Required: segments(r.Required), Preferred: segments(r.Preferred)}
}
