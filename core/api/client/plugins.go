// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/drover-project/drover/core/model"
)

func ofNode(nodeID string) *Query {
	if nodeID == "" {
		return nil
	}
	return withParam(nil, "node_id", nodeID)
}

// AgentPlugins lists the plugins of a node; "" is the agent's own node.
func (c *Client) AgentPlugins(ctx context.Context, nodeID string) ([]*model.AgentPlugin, error) {
	out, _, err := get[[]*model.AgentPlugin](ctx, c, "/v1/agent/plugins", ofNode(nodeID))
	return out, err
}

// AgentPlugin returns one plugin of a node.
func (c *Client) AgentPlugin(ctx context.Context, nodeID, name string) (*model.AgentPlugin, error) {
	out, _, err := get[*model.AgentPlugin](ctx, c, "/v1/agent/plugin/"+url.PathEscape(name), ofNode(nodeID))
	return out, err
}

// ChangeAgentPlugin applies an action to a plugin of a node: rollback, disable, enable
// or reload.
func (c *Client) ChangeAgentPlugin(ctx context.Context, nodeID, name, action string) (*model.AgentPlugin, error) {
	return c.changePlugin(ctx, nodeID, name, action, url.Values{}, nil, nil, 0)
}

// InstallAgentPlugin makes a node fetch a release and switch to it. The action is
// install, or upgrade for an existing plugin. With detach it does not wait for the
// outcome, which is in the plugin's Work.
func (c *Client) InstallAgentPlugin(ctx context.Context, nodeID, name, action string, r *model.PluginRelease, detach bool) (*model.AgentPlugin, error) {
	return c.changePlugin(ctx, nodeID, name, action, detached(detach), r, nil, 0)
}

func detached(detach bool) url.Values {
	if detach {
		return url.Values{"detach": {"true"}}
	}
	return url.Values{}
}

// UploadAgentPlugin sends the file of a release, which must have a digest, to a node.
// size is used to report progress; 0 means unknown.
func (c *Client) UploadAgentPlugin(ctx context.Context, nodeID, name, action string, r *model.PluginRelease, file io.Reader, size int64, detach bool) (*model.AgentPlugin, error) {
	params := detached(detach)
	params.Set("digest", r.Digest)
	if r.Version != "" {
		params.Set("version", r.Version)
	}
	if r.Config != nil {
		config, err := json.Marshal(r.Config)
		if err != nil {
			return nil, fmt.Errorf("encode the plugin's configuration: %w", err)
		}
		params.Set("config", string(config))
	}
	return c.changePlugin(ctx, nodeID, name, action, params, nil, file, size)
}

// changePlugin has no time limit of its own, because it includes the transfer of the
// file.
func (c *Client) changePlugin(ctx context.Context, nodeID, name, action string, params url.Values, release *model.PluginRelease, file io.Reader, size int64) (*model.AgentPlugin, error) {
	if nodeID != "" {
		params.Set("node_id", nodeID)
	}
	req := &Request{Method: http.MethodPut, Path: "/v1/agent/plugin/" + url.PathEscape(name) + "/" + action, Params: params, Body: file, Size: size, Header: http.Header{}}
	if file != nil {
		req.Header.Set("Content-Type", "application/octet-stream")
	} else if release != nil {
		body, err := json.Marshal(release)
		if err != nil {
			return nil, fmt.Errorf("encode the release: %w", err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Body = bytes.NewReader(body)
	}
	answer, err := c.success(ctx, req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	out := &model.AgentPlugin{}
	if err := decode(answer.Body, out); err != nil {
		return nil, fmt.Errorf("decode the answer to %s: %w", req.Path, err)
	}
	return out, nil
}

// RemoveAgentPlugin stops a plugin of a node and deletes its file; with force even if
// it has tasks.
func (c *Client) RemoveAgentPlugin(ctx context.Context, nodeID, name string, force bool) error {
	q := withParam(ofNode(nodeID), "force", strconv.FormatBool(force))
	_, err := c.Delete(ctx, "/v1/agent/plugin/"+url.PathEscape(name), q, nil, nil)
	return err
}
