// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// maxPluginBytes is the maximum size of a plugin's file.
const maxPluginBytes = 1 << 30

// pluginActions are the actions on a plugin of a node, as the last element of the
// path.
var pluginActions = []string{"install", "upgrade", "rollback", "disable", "enable", "reload"}

// PluginChange is a requested change of a plugin of a node.
type PluginChange struct {
	NodeID  string
	Name    string
	Action  string // one of pluginActions, or remove
	Force   bool   // for remove
	Release model.PluginRelease
	Size    int64 // size of the file that follows; 0 means unknown
	Detach  bool  // for install and upgrade: do not wait for the outcome
}

func (s *Server) agentPlugins(_ http.ResponseWriter, r *http.Request) (any, error) {
	plugins, err := s.local.NodePlugins(r.Context(), paramsOf(r).get("node_id"))
	if err != nil {
		return nil, pluginError(err)
	}
	return orEmpty(plugins), nil
}

func (s *Server) agentPlugin(_ http.ResponseWriter, r *http.Request) (any, error) {
	p, err := s.local.NodePlugin(r.Context(), paramsOf(r).get("node_id"), r.PathValue("name"))
	if err != nil {
		return nil, pluginError(err)
	}
	return p, nil
}

func (s *Server) removeAgentPlugin(_ http.ResponseWriter, r *http.Request) (any, error) {
	force, err := boolParam(r, "force")
	if err != nil {
		return nil, err
	}
	_, err = s.local.ChangeNodePlugin(r.Context(), &PluginChange{
		NodeID: paramsOf(r).get("node_id"), Name: r.PathValue("name"), Action: "remove", Force: force,
	}, nil)
	return done, pluginError(err)
}

// changeAgentPlugin accepts a release as JSON, or the file as body with the rest as
// parameters.
func (s *Server) changeAgentPlugin(_ http.ResponseWriter, r *http.Request) (any, error) {
	q := paramsOf(r)
	change := &PluginChange{NodeID: q.get("node_id"), Name: r.PathValue("name"), Action: r.PathValue("action")}
	if !slices.Contains(pluginActions, change.Action) {
		return nil, fail(http.StatusNotFound, "")
	}
	detach, err := boolParam(r, "detach")
	if err != nil {
		return nil, err
	}
	change.Detach = detach
	var body io.Reader
	switch kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); {
	case change.Action != "install" && change.Action != "upgrade":
	case kind == "application/octet-stream":
		change.Release.Digest, change.Release.Version = q.get("digest"), q.get("version")
		if config := q.get("config"); config != "" {
			if err := json.Unmarshal([]byte(config), &change.Release.Config); err != nil {
				return nil, fail(http.StatusBadRequest, model.WrongType(err, []byte(config), &change.Release.Config, "the parameter config").Error())
			}
		}
		body, change.Size = r.Body, max(r.ContentLength, 0)
	default:
		r.Body = http.MaxBytesReader(nil, r.Body, maxBodyBytes)
		if err := decodeBody(r, &change.Release, false); err != nil {
			return nil, err
		}
	}
	p, err := s.local.ChangeNodePlugin(r.Context(), change, body)
	if err != nil {
		return nil, pluginError(err)
	}
	return p, nil
}

// pluginError sets status codes for errors that depend on the plugin's state.
func pluginError(err error) error {
	if err == nil {
		return nil
	}
	switch errdefs.ClassOf(err) {
	case errdefs.FailedPrecondition, errdefs.Aborted, errdefs.AlreadyExists:
		return fail(http.StatusConflict, err.Error())
	case errdefs.ResourceExhausted: // the disk is full or the file is too large: a retry does not help
		return fail(http.StatusInsufficientStorage, err.Error())
	case errdefs.Unavailable:
		return fail(http.StatusServiceUnavailable, err.Error())
	case errdefs.DeadlineExceeded:
		return fail(http.StatusGatewayTimeout, err.Error())
	}
	return err
}
