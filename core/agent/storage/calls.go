// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package storage

import (
	"context"
	"errors"

	"github.com/drover-project/drover/core/pluginhost/volume"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// handler carries out a call of servers to the controller's part of a plugin. Its answer may
// be nil.
type handler func(ctx context.Context, b volume.Backend, q *rpc.StorageCall) (any, error)

// handlers are the calls to the controller's part, by the method of the node.
var handlers = map[string]handler{
	rpc.MethodCSICreate: func(ctx context.Context, b volume.Backend, q *rpc.StorageCall) (any, error) {
		return b.Create(ctx, volume.CreateRequest{
			Name: q.Name, Capacity: q.Capacity, Access: q.Access, Parameters: q.Parameters, Secrets: volume.Secrets(q.Secrets), Topology: q.Topology,
			SourceSnapshot: q.SourceSnapshot, SourceVolume: q.SourceVolume,
		})
	},
	rpc.MethodCSIDelete: func(ctx context.Context, b volume.Backend, q *rpc.StorageCall) (any, error) {
		return nil, b.Delete(ctx, q.ID, volume.Secrets(q.Secrets))
	},
	rpc.MethodCSIValidate: func(ctx context.Context, b volume.Backend, q *rpc.StorageCall) (any, error) {
		return nil, b.Validate(ctx, volume.ValidateRequest{ID: q.ID, Access: q.Access, Context: q.Context, Parameters: q.Parameters, Secrets: volume.Secrets(q.Secrets)})
	},
	rpc.MethodCSIList: func(ctx context.Context, b volume.Backend, q *rpc.StorageCall) (any, error) {
		return b.List(ctx, volume.PageRequest{Limit: q.Limit, After: q.After})
	},
	rpc.MethodCSIExpand: func(ctx context.Context, b volume.Backend, q *rpc.StorageCall) (any, error) {
		return b.Expand(ctx, volume.ExpandRequest{ID: q.ID, Capacity: q.Capacity, Access: firstOf(q.Access), Secrets: volume.Secrets(q.Secrets)})
	},
	rpc.MethodCSIAttach: func(ctx context.Context, b volume.Backend, q *rpc.StorageCall) (any, error) {
		got, err := b.Attach(ctx, volume.AttachRequest{ID: q.ID, NodeID: q.NodeID, Access: firstOf(q.Access), ReadOnly: q.ReadOnly, Context: q.Context, Secrets: volume.Secrets(q.Secrets)})
		return rpc.StorageAttached{PublishContext: got}, err
	},
	rpc.MethodCSIDetach: func(ctx context.Context, b volume.Backend, q *rpc.StorageCall) (any, error) {
		return nil, b.Detach(ctx, volume.DetachRequest{ID: q.ID, NodeID: q.NodeID, Secrets: volume.Secrets(q.Secrets)})
	},
	rpc.MethodCSISnapshot: func(ctx context.Context, b volume.Backend, q *rpc.StorageCall) (any, error) {
		return b.CreateSnapshot(ctx, volume.SnapshotRequest{Name: q.Name, VolumeID: q.SourceVolume, Parameters: q.Parameters, Secrets: volume.Secrets(q.Secrets)})
	},
	rpc.MethodCSIDeleteSnapshot: func(ctx context.Context, b volume.Backend, q *rpc.StorageCall) (any, error) {
		return nil, b.DeleteSnapshot(ctx, q.ID, volume.Secrets(q.Secrets))
	},
	rpc.MethodCSIListSnapshots: func(ctx context.Context, b volume.Backend, q *rpc.StorageCall) (any, error) {
		return b.ListSnapshots(ctx, volume.SnapshotPageRequest{
			PageRequest: volume.PageRequest{Limit: q.Limit, After: q.After}, VolumeID: q.SourceVolume, SnapshotID: q.ID, Secrets: volume.Secrets(q.Secrets),
		})
	},
}

func firstOf(all []volume.Access) (a volume.Access) {
	if len(all) > 0 {
		a = all[0]
	}
	return a
}

// Call carries out what servers ask of a storage plugin of the node. The answer is nil if the
// method has none.
func (k *Keeper) Call(ctx context.Context, method string, q rpc.StorageCall) (any, error) {
	switch {
	case q.Plugin == "":
		return nil, errdefs.InvalidArgumentf("a call to a storage plugin needs its id")
	case method == rpc.MethodCSIRelease:
		return nil, k.releaseFor(ctx, &q)
	case method == rpc.MethodCSINodeExpand:
		return k.expandHere(ctx, &q)
	}
	do := handlers[method]
	if do == nil {
		return nil, errdefs.Unimplementedf("this node does not know the call %q to storage plugins; upgrade it", method)
	}
	var out any
	err := k.call(ctx, q.Plugin, true, func(ctx context.Context, b volume.Backend, _ *volume.Fingerprint) (err error) {
		out, err = do(ctx, b, &q)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// releaseFor takes back what the node has of a volume. If the plugin is gone, what counts is
// what is mounted.
func (k *Keeper) releaseFor(ctx context.Context, q *rpc.StorageCall) error {
	user, err := k.release(ctx, q.Plugin, q.ID)
	if _, gone := k.goneFor(part{id: q.Plugin}.name()); gone && errdefs.IsNotFound(err) {
		user, err = k.releaseWithoutPlugin(q.Plugin, q.ID, err)
	}
	if err != nil {
		return err
	}
	if user != "" {
		return errdefs.WithReason(errdefs.FailedPreconditionf("volume %q is used on this node by the alloc %s", q.ID, user), volume.ReasonInUse)
	}
	return nil
}

// expandHere grows what the node has of a volume: where it is published, or else where it is
// staged.
func (k *Keeper) expandHere(ctx context.Context, q *rpc.StorageCall) (rpc.StorageExpanded, error) {
	var out rpc.StorageExpanded
	err := k.alone(ctx, q.Plugin+"\x00"+q.ID, func(ctx context.Context) error {
		return k.node(ctx, q.Plugin, func(ctx context.Context, b volume.Backend, f *volume.Fingerprint) error {
			all, err := b.Published(ctx)
			if err != nil {
				return err
			}
			for _, p := range all {
				if p.ID != q.ID || !f.Can(volume.CanNodeExpand) {
					continue
				}
				path := p.StagingPath
				if len(p.TargetPaths) > 0 {
					path = p.TargetPaths[0]
				}
				size, err := b.NodeExpand(ctx, volume.NodeExpandRequest{
					ID: q.ID, Path: path, StagingPath: p.StagingPath, Capacity: q.Capacity, Access: firstOf(q.Access), Secrets: volume.Secrets(q.Secrets),
				})
				out.CapacityBytes = size
				return err
			}
			return nil
		})
	})
	if errdefs.IsNotFound(err) && !errors.Is(err, context.Canceled) && !isFilled(k.mounts(q.Plugin)) {
		err = nil
	}
	return out, err
}
