// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// storageTimeout limits a call to a driver.
const storageTimeout = 2 * time.Minute

// askController makes a call about a volume to a controller of its driver that can do it. A
// controller that is out of reach is no reason to fail while there is another one. The
// volume's secrets are sent unless the call has its own.
func askController[T any](ctx context.Context, e *Endpoint, v *model.CSIVolume, needs func(*model.CSIControllerInfo) bool, method string, call rpc.StorageCall) (answer T, err error) {
	if len(call.Secrets) == 0 {
		if call.Secrets, err = e.openSecrets(v); err != nil {
			return answer, err
		}
	}
	driver := ""
	if v != nil {
		driver = v.Driver
	}
	nodes, err := e.controllers(call.Plugin, driver, cmp.Or(call.ID, call.SourceVolume, call.Name), needs)
	if err != nil {
		return answer, err
	}
	ctx, cancel := context.WithTimeout(ctx, storageTimeout)
	defer cancel()
	for _, id := range nodes {
		var node rpc.Node
		if node, err = e.Nodes(id); err == nil {
			answer, err = rpc.Ask[T](ctx, node, method, call)
		}
		if !errdefs.IsUnavailable(err) || ctx.Err() != nil {
			break
		}
	}
	return answer, err
}

// controllers returns the nodes with healthy controllers of a driver that can do something. The
// first one is another for each volume, and the same for all calls about one volume while it is
// healthy: a call that has not ended although nobody waits for it any more is in its lane there,
// so that the next call does not overtake it.
//
// If different drivers have the id, only the driver of the given name is asked. Without a name
// nobody is asked: a driver must hear nothing of the volumes and secrets of another one.
func (e *Endpoint) controllers(plugin, driver, volume string, needs func(*model.CSIControllerInfo) bool) (nodes []string, err error) {
	p := e.Store.View().CSIPluginByID(plugin)
	if p == nil {
		return nil, noPlugin(plugin)
	}
	if why := p.Contested(); why != "" && driver == "" {
		return nil, errdefs.FailedPreconditionf("%s", why)
	}
	if p = p.Of(driver); len(p.Controllers)+len(p.Nodes) == 0 {
		return nil, errdefs.Unavailablef("the volume is one of the CSI driver %q, and with the id %q another one runs; run the first again, or register the volume again if its driver has another name now", driver, plugin)
	}
	cannot := false
	for _, id := range slices.Sorted(maps.Keys(p.Controllers)) {
		c := p.Controllers[id]
		switch {
		case c.ControllerInfo == nil || needs != nil && !needs(c.ControllerInfo):
			cannot = true
		case c.Healthy:
			nodes = append(nodes, id)
		}
	}
	switch {
	case len(nodes) == 0 && cannot:
		return nil, errdefs.Unimplementedf("the CSI driver %q cannot do this", plugin)
	case len(nodes) == 0:
		return nil, errdefs.Unavailablef("the CSI driver %q has no healthy controller; see: drover plugin status %s", plugin, plugin)
	}
	slices.SortStableFunc(nodes, func(a, b string) int { return bytes.Compare(weight(a, volume), weight(b, volume)) })
	return nodes, nil
}

// weight is a number for a node and a volume by which a volume has an order of nodes that
// changes only for the node that comes or goes.
func weight(node, volume string) []byte {
	sum := sha256.Sum256([]byte(node + "\x00" + volume))
	return sum[:8]
}

// secretsPath is the path to which sealed secrets of a volume are bound.
func secretsPath(v *model.CSIVolume) string { return "drover/csi-volume/" + v.ID }

// sealSecrets stores secrets in a volume. Without any, the volume keeps its old ones.
func (e *Endpoint) sealSecrets(ctx context.Context, v, old *model.CSIVolume, secrets model.VolumeSecrets) error {
	if len(secrets) == 0 {
		if old != nil {
			v.SecretsKeyID, v.SealedSecrets = old.SecretsKeyID, old.SealedSecrets
		}
		return nil
	}
	key, err := e.activeKey(ctx)
	if err != nil {
		return err
	}
	v.SecretsKeyID = key.KeyID
	v.SealedSecrets, err = e.Keyring.Seal(key, v.Namespace, secretsPath(v), secrets)
	return err
}

func (e *Endpoint) openSecrets(v *model.CSIVolume) (model.VolumeSecrets, error) {
	if v == nil || v.SecretsKeyID == "" {
		return nil, nil
	}
	sealed := &model.Variable{Namespace: v.Namespace, Path: secretsPath(v), KeyID: v.SecretsKeyID, Data: v.SealedSecrets}
	return e.Keyring.OpenRow(e.Store.View().RootKeyByID(v.SecretsKeyID), sealed)
}

// CSIDrivers makes the calls that attach and detach volumes. It implements claims.Drivers.
type CSIDrivers struct{ Endpoint *Endpoint }

// Attach implements claims.Drivers.
func (d CSIDrivers) Attach(ctx context.Context, v *model.CSIVolume, at *model.CSIAttachment) (map[string]string, error) {
	call := rpc.StorageCall{
		Plugin: v.PluginID, ID: v.ExternalID, NodeID: at.ExternalNodeID, ReadOnly: at.ReadOnly, Context: v.Context,
		Access: []rpc.StorageAccess{rpc.NewStorageAccess(at.AccessMode, at.AttachmentMode, v.MountOptions.Merge(nil))},
	}
	out, err := askController[rpc.StorageAttached](ctx, d.Endpoint, v, attaches, rpc.MethodCSIAttach, call)
	return out.PublishContext, err
}

// Detach implements claims.Drivers.
func (d CSIDrivers) Detach(ctx context.Context, v *model.CSIVolume, at *model.CSIAttachment) error {
	call := rpc.StorageCall{Plugin: v.PluginID, ID: v.ExternalID, NodeID: at.ExternalNodeID}
	_, err := askController[struct{}](ctx, d.Endpoint, v, attaches, rpc.MethodCSIDetach, call)
	return err
}

// Release implements claims.Drivers. A node that does not run the driver any more has
// nothing that it could end, or ends it when the driver is back: then it says so.
func (d CSIDrivers) Release(ctx context.Context, v *model.CSIVolume, nodeID string) error {
	return d.Endpoint.askStorageNode(ctx, v, nodeID, rpc.MethodCSIRelease, rpc.StorageCall{Plugin: v.PluginID, ID: v.ExternalID})
}

func attaches(c *model.CSIControllerInfo) bool { return c.SupportsAttachDetach }

// VolumeGrant returns what a node must know of a volume that one of its allocs may use.
func (e *Endpoint) VolumeGrant(v *model.CSIVolume, r *model.VolumeRequest, at *model.CSIAttachment) (rpc.VolumeGrant, error) {
	secrets, err := e.openSecrets(v)
	if err != nil {
		return rpc.VolumeGrant{}, err
	}
	access, attachment := r.Modes()
	out := rpc.VolumeGrant{
		Namespace: v.Namespace, ID: v.ID, ExternalID: v.ExternalID, Plugin: v.PluginID, ReadOnly: !r.Writes(), Context: v.Context, CapacityBytes: v.Capacity,
		Access: rpc.NewStorageAccess(access, attachment, v.MountOptions.Merge(r.MountOptions)), Secrets: secrets,
	}
	if at != nil {
		out.PublishContext = at.PublishContext
	}
	return out, nil
}

// ExternalCSIVolumes lists the volumes of a storage system.
func (e *Endpoint) ExternalCSIVolumes(ctx context.Context, plugin string, limit int, after string) (*api.CSIExternalVolumes, error) {
	page, err := askController[rpc.StorageVolumePage](ctx, e, nil, func(c *model.CSIControllerInfo) bool { return c.SupportsListVolumes }, rpc.MethodCSIList, rpc.StorageCall{Plugin: plugin, Limit: limit, After: after})
	if err != nil {
		return nil, err
	}
	out := &api.CSIExternalVolumes{Volumes: []*api.CSIExternalVolume{}, NextToken: page.Next}
	for _, d := range page.Volumes {
		v := &api.CSIExternalVolume{ExternalID: d.ID, CapacityBytes: d.CapacityBytes, VolumeContext: d.Context, CloneID: d.SourceVolume, SnapshotID: d.SourceSnapshot, PublishedExternalNodeIDs: append([]string{}, d.PublishedNodes...)}
		if d.Condition != nil {
			v.IsAbnormal, v.Status = d.Condition.Abnormal, d.Condition.Message
		}
		out.Volumes = append(out.Volumes, v)
	}
	return out, nil
}

// CreateCSISnapshot has a driver make a snapshot of a volume.
func (e *Endpoint) CreateCSISnapshot(ctx context.Context, namespace string, s *api.CSISnapshot) (*api.CSISnapshot, error) {
	v := e.Store.View().CSIVolumeByID(namespace, s.SourceVolumeID)
	if v == nil {
		return nil, errdefs.NotFoundf("volume not found: %s", s.SourceVolumeID)
	}
	if v.ExternalID == "" {
		return nil, errdefs.FailedPreconditionf("volume %q is not created yet", v.ID)
	}
	if err := s.Secrets.Validate(); err != nil {
		return nil, errdefs.InvalidArgumentf("%w", err)
	}
	name := cmp.Or(s.Name, snapshotName(v.ID, e.Now()))
	call := rpc.StorageCall{Plugin: v.PluginID, Name: name, SourceVolume: v.ExternalID, Parameters: s.Parameters, Secrets: s.Secrets}
	made, err := askController[rpc.StorageSnapshot](ctx, e, v, snapshots, rpc.MethodCSISnapshot, call)
	if err != nil {
		return nil, err
	}
	out := snapshotOf(made)
	return out, nil
}

// snapshotName is the name of a snapshot to which nobody gave one. It is another each time, and
// has what all storage systems take in names: clouds take no dots, others no brackets.
func snapshotName(volumeID string, now time.Time) string {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(volumeID))
	const longest = 40 // of the 63 that a name may have
	plain = strings.Trim(plain[:min(len(plain), longest)], "-")
	return "s-" + plain + strings.Replace(now.UTC().Format("-20060102-150405.000"), ".", "-", 1)
}

// DeleteCSISnapshot has a driver remove a snapshot.
func (e *Endpoint) DeleteCSISnapshot(ctx context.Context, plugin, id string, secrets model.VolumeSecrets) error {
	_, err := askController[struct{}](ctx, e, nil, snapshots, rpc.MethodCSIDeleteSnapshot, rpc.StorageCall{Plugin: plugin, ID: id, Secrets: secrets})
	return err
}

// CSISnapshots lists the snapshots of a storage system.
func (e *Endpoint) CSISnapshots(ctx context.Context, plugin string, secrets model.VolumeSecrets, limit int, after string) (*api.CSISnapshots, error) {
	call := rpc.StorageCall{Plugin: plugin, Limit: limit, After: after, Secrets: secrets}
	page, err := askController[rpc.StorageSnapshotPage](ctx, e, nil, func(c *model.CSIControllerInfo) bool { return c.SupportsListSnapshots }, rpc.MethodCSIListSnapshots, call)
	if err != nil {
		return nil, err
	}
	out := &api.CSISnapshots{Snapshots: []*api.CSISnapshot{}, NextToken: page.Next}
	for _, s := range page.Snapshots {
		row := snapshotOf(s)
		row.PluginID = plugin
		out.Snapshots = append(out.Snapshots, row)
	}
	return out, nil
}

func snapshots(c *model.CSIControllerInfo) bool { return c.SupportsCreateDeleteSnapshot }

func snapshotOf(s rpc.StorageSnapshot) *api.CSISnapshot {
	return &api.CSISnapshot{ID: s.ID, ExternalSourceVolumeID: s.VolumeID, SizeBytes: s.SizeBytes, CreateTime: s.CreatedAt.Unix(), IsReady: s.Ready}
}
