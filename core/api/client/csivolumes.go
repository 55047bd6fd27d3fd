// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

// WithVolumeSecrets returns a client that sends secrets for the driver of a volume.
func (c *Client) WithVolumeSecrets(secrets model.VolumeSecrets) *Client {
	if len(secrets) == 0 {
		return c
	}
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		pairs = append(pairs, name+"="+secrets[name])
	}
	out := *c
	out.header = http.Header{api.HeaderCSISecrets: {strings.Join(pairs, ",")}}
	return &out
}

// CSIVolumes lists the volumes of type csi. nodeID may be a prefix; "" is every node. plugin
// is the id of a driver; "" is every driver.
func (c *Client) CSIVolumes(ctx context.Context, nodeID, plugin string, q *Query) ([]*api.CSIVolumeStub, Meta, error) {
	q = withParam(q, "type", "csi")
	if nodeID != "" {
		q = withParam(q, "node_id", nodeID)
	}
	if plugin != "" {
		q = withParam(q, "plugin_id", plugin)
	}
	return get[[]*api.CSIVolumeStub](ctx, c, "/v1/volumes", q)
}

func csiPath(id, act string) string { return "/v1/volume/csi/" + url.PathEscape(id) + act }

// CSIVolume reads a volume with the allocs that use it.
func (c *Client) CSIVolume(ctx context.Context, id string, q *Query) (*api.CSIVolume, Meta, error) {
	return get[*api.CSIVolume](ctx, c, csiPath(id, ""), q)
}

// CreateCSIVolume has a driver make a volume.
func (c *Client) CreateCSIVolume(ctx context.Context, v *api.CSIVolumeSpec) (*api.CSIVolumesResponse, error) {
	return put[api.CSIVolumesResponse](ctx, c, csiPath(v.ID, "/create"), nil, &api.CSIVolumesRequest{Volumes: []*api.CSIVolumeSpec{v}})
}

// RegisterCSIVolume adds a volume that a storage system has.
func (c *Client) RegisterCSIVolume(ctx context.Context, v *api.CSIVolumeSpec) (*api.CSIVolumesResponse, error) {
	return put[api.CSIVolumesResponse](ctx, c, csiPath(v.ID, ""), nil, &api.CSIVolumesRequest{Volumes: []*api.CSIVolumeSpec{v}})
}

// DeleteCSIVolume has the driver remove a volume.
func (c *Client) DeleteCSIVolume(ctx context.Context, id string) error {
	_, err := c.Delete(ctx, csiPath(id, "/delete"), nil, nil, nil)
	return err
}

// DeregisterCSIVolume forgets a volume; with force also one that is in use.
func (c *Client) DeregisterCSIVolume(ctx context.Context, id string, force bool) error {
	var q *Query
	if force {
		q = withParam(nil, "force", "true")
	}
	_, err := c.Delete(ctx, csiPath(id, ""), q, nil, nil)
	return err
}

// DetachCSIVolume detaches a volume that no alloc of a node holds.
func (c *Client) DetachCSIVolume(ctx context.Context, id, nodeID string) error {
	_, err := c.Delete(ctx, csiPath(id, "/detach"), withParam(nil, "node", nodeID), nil, nil)
	return err
}

// ExternalCSIVolumes lists the volumes of a storage system.
func (c *Client) ExternalCSIVolumes(ctx context.Context, plugin string, q *Query) (*api.CSIExternalVolumes, error) {
	out, _, err := get[*api.CSIExternalVolumes](ctx, c, "/v1/volumes/external", withParam(q, "plugin_id", plugin))
	return out, err
}

// CreateCSISnapshot has a driver make a snapshot.
func (c *Client) CreateCSISnapshot(ctx context.Context, s *api.CSISnapshot) (*api.CSISnapshots, error) {
	return put[api.CSISnapshots](ctx, c, "/v1/volumes/snapshot", nil, &api.CSISnapshotsRequest{Snapshots: []*api.CSISnapshot{s}})
}

// DeleteCSISnapshot has a driver remove a snapshot.
func (c *Client) DeleteCSISnapshot(ctx context.Context, plugin, id string) error {
	_, err := c.Delete(ctx, "/v1/volumes/snapshot", withParam(withParam(nil, "plugin_id", plugin), "snapshot_id", id), nil, nil)
	return err
}

// CSISnapshots lists the snapshots of a storage system.
func (c *Client) CSISnapshots(ctx context.Context, plugin string, q *Query) (*api.CSISnapshots, error) {
	out, _, err := get[*api.CSISnapshots](ctx, c, "/v1/volumes/snapshot", withParam(q, "plugin_id", plugin))
	return out, err
}

// CSIPlugins lists the CSI drivers that jobs of the cluster run.
func (c *Client) CSIPlugins(ctx context.Context, q *Query) ([]*api.CSIPluginStub, error) {
	out, _, err := get[[]*api.CSIPluginStub](ctx, c, "/v1/plugins", withParam(q, "type", "csi"))
	return out, err
}

// CSIPlugin reads a CSI driver.
func (c *Client) CSIPlugin(ctx context.Context, id string) (*api.CSIPlugin, error) {
	out, _, err := get[*api.CSIPlugin](ctx, c, "/v1/plugin/csi/"+url.PathEscape(id), nil)
	return out, err
}
