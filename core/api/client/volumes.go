// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"net/url"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

// HostVolumes lists the dynamic host volumes. nodeID may be a prefix; "" is every node.
func (c *Client) HostVolumes(ctx context.Context, nodeID, pool string, q *Query) ([]*api.HostVolumeStub, Meta, error) {
	q = withParam(q, "type", "host")
	if nodeID != "" {
		q = withParam(q, "node_id", nodeID)
	}
	if pool != "" {
		q = withParam(q, "node_pool", pool)
	}
	return get[[]*api.HostVolumeStub](ctx, c, "/v1/volumes", q)
}

// HostVolume reads a dynamic host volume with the allocs that use it.
func (c *Client) HostVolume(ctx context.Context, id string, q *Query) (*api.HostVolume, Meta, error) {
	return get[*api.HostVolume](ctx, c, "/v1/volume/host/"+url.PathEscape(id), q)
}

// CreateHostVolume has a node make a volume.
func (c *Client) CreateHostVolume(ctx context.Context, v *model.HostVolume) (*api.HostVolumeResponse, error) {
	return put[api.HostVolumeResponse](ctx, c, "/v1/volume/host/create", nil, &api.HostVolumeRequest{Volume: v})
}

// RegisterHostVolume adds a directory that is on a node.
func (c *Client) RegisterHostVolume(ctx context.Context, v *model.HostVolume) (*api.HostVolumeResponse, error) {
	return put[api.HostVolumeResponse](ctx, c, "/v1/volume/host/register", nil, &api.HostVolumeRequest{Volume: v})
}

// DeleteHostVolume removes a volume. With force, one whose node is out of reach is forgotten.
func (c *Client) DeleteHostVolume(ctx context.Context, id string, force bool) error {
	var q *Query
	if force {
		q = withParam(nil, "force", "true")
	}
	_, err := c.Delete(ctx, "/v1/volume/host/"+url.PathEscape(id)+"/delete", q, nil, nil)
	return err
}

// VolumeClaims lists the claims on sticky host volumes; params may be job_id, task_group and
// volume_name.
func (c *Client) VolumeClaims(ctx context.Context, params map[string]string, q *Query) ([]*model.VolumeClaim, Meta, error) {
	for name, value := range params {
		if value != "" {
			q = withParam(q, name, value)
		}
	}
	return get[[]*model.VolumeClaim](ctx, c, "/v1/volumes/claims", q)
}

// DeleteVolumeClaim removes a claim.
func (c *Client) DeleteVolumeClaim(ctx context.Context, id string) error {
	_, err := c.Delete(ctx, "/v1/volumes/claim/"+url.PathEscape(id), nil, nil, nil)
	return err
}
