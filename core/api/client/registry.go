// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

func registryPath(name string) string { return "/v1/registry/plugin/" + url.PathEscape(name) }

// RegistryPlugins lists the plugins of the cluster's registry.
func (c *Client) RegistryPlugins(ctx context.Context, q *Query) ([]*api.PluginStub, Meta, error) {
	return get[[]*api.PluginStub](ctx, c, "/v1/registry/plugins", q)
}

// RegistryPlugin returns a plugin of the registry. The values of its configuration are
// included only with reveal.
func (c *Client) RegistryPlugin(ctx context.Context, name string, reveal bool, q *Query) (*model.PluginSpec, Meta, error) {
	if reveal {
		q = withParam(q, "reveal", "true")
	}
	return get[*model.PluginSpec](ctx, c, registryPath(name), q)
}

// RegistryPluginNodes returns the status of each node for a plugin of the registry.
func (c *Client) RegistryPluginNodes(ctx context.Context, name string, q *Query) ([]*api.PluginNode, Meta, error) {
	return get[[]*api.PluginNode](ctx, c, registryPath(name)+"/nodes", q)
}

// RegisterPlugin registers a plugin. If cas is set, the plugin must have that modify
// index.
func (c *Client) RegisterPlugin(ctx context.Context, p *model.PluginSpec, cas *uint64) (*api.PluginRegisterResponse, error) {
	return put[api.PluginRegisterResponse](ctx, c, registryPath(p.Name), casParam(cas), p)
}

// DeregisterPlugin removes a plugin from the registry, and thereby from nodes.
func (c *Client) DeregisterPlugin(ctx context.Context, name string, cas *uint64) error {
	_, err := c.Delete(ctx, registryPath(name), casParam(cas), nil, nil)
	return err
}

// SteerPluginRollout pauses, resumes or reverts the roll-out of a plugin.
func (c *Client) SteerPluginRollout(ctx context.Context, name, action string) (*api.PluginRegisterResponse, error) {
	return put[api.PluginRegisterResponse](ctx, c, registryPath(name)+"/rollout", nil, map[string]string{"Action": action})
}

// PluginFile describes an uploaded file. NotFound: it does not exist.
func (c *Client) PluginFile(ctx context.Context, digest string) (*api.PluginFile, error) {
	out, _, err := get[*api.PluginFile](ctx, c, "/v1/registry/file/"+url.PathEscape(digest), nil)
	return out, err
}

// UploadPluginFile uploads a file with the given digest.
func (c *Client) UploadPluginFile(ctx context.Context, digest string, file io.Reader) (*api.PluginFile, error) {
	answer, err := c.success(ctx, &Request{
		Method: http.MethodPut, Path: "/v1/registry/file/" + url.PathEscape(digest), Body: file,
		Header: http.Header{"Content-Type": {"application/octet-stream"}},
	})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	out := &api.PluginFile{}
	if err := decode(answer.Body, out); err != nil {
		return nil, fmt.Errorf("decode the answer to an upload: %w", err)
	}
	return out, nil
}
