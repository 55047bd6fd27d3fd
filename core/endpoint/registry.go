// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"
	"io"
	"math"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

var _ api.PluginRegistry = (*Endpoint)(nil)

// mayChangeRegistry rejects changes unless the operator has enabled them: whoever
// registers a plugin can run a program on every node with the rights of its agent.
func (e *Endpoint) mayChangeRegistry() error {
	if e.PluginRegistry {
		return nil
	}
	return errdefs.PermissionDeniedf("the registry of plugins is switched off: whoever may register a plugin has programs run on all nodes with the agent's rights; set server { plugin_registry = true } on the servers if everybody who reaches this API may")
}

// RegisterPlugin stores a plugin and starts the roll-out of its release.
func (e *Endpoint) RegisterPlugin(ctx context.Context, p *model.PluginSpec, cas *uint64) (*model.PluginSpec, uint64, error) {
	if err := e.mayChangeRegistry(); err != nil {
		return nil, 0, err
	}
	p.Canonicalize()
	p.Previous, p.Rollout = nil, nil // the log sets these
	if err := p.Validate(); err != nil {
		return nil, 0, err
	}
	if holdsRedacted(p.Release.Config) {
		return nil, 0, errdefs.InvalidArgumentf("the config of plugin %q holds %q, which stands for a value that was not shown; write the value, or read the plugin with ?reveal=true", p.Name, api.RedactedValue)
	}
	p.Release.Config, _ = wholeNumbers(p.Release.Config).(map[string]any)
	if p.Release.Source == model.PluginSourceUploaded {
		if err := e.PluginFiles.Have(ctx, p.Release.Digest); errdefs.IsNotFound(err) {
			return nil, 0, errdefs.InvalidArgumentf("no file with digest %s was uploaded; upload it first, to /v1/registry/file/DIGEST", p.Release.Digest)
		} else if err != nil {
			return nil, 0, err
		}
	}
	cmd := &fsm.RegisterPlugin{Spec: p}
	if cas != nil {
		cmd.CAS, cmd.Index = true, *cas
	}
	return e.changePlugin(ctx, p.Name, cmd)
}

// changePlugin proposes a command and returns the plugin after it.
func (e *Endpoint) changePlugin(ctx context.Context, name string, cmd fsm.Command) (*model.PluginSpec, uint64, error) {
	index, err := e.propose(ctx, cmd)
	if err != nil {
		return nil, index, err
	}
	p := e.Store.View().PluginSpecByName(name)
	if p == nil {
		return nil, index, errdefs.Abortedf("plugin %q was deregistered right after it was changed", name)
	}
	return p, index, nil
}

func holdsRedacted(v any) bool {
	switch v := v.(type) {
	case string:
		return v == api.RedactedValue
	case map[string]any:
		for _, e := range v {
			if holdsRedacted(e) {
				return true
			}
		}
	case []any:
		for _, e := range v {
			if holdsRedacted(e) {
				return true
			}
		}
	}
	return false
}

// maxExact is the largest integer below which float64 represents all integers.
const maxExact = 1 << 53

// wholeNumbers converts integral JSON numbers to integers, which schemas distinguish.
func wholeNumbers(v any) any {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= maxExact {
			return int64(v)
		}
	case map[string]any:
		for k, e := range v {
			v[k] = wholeNumbers(e)
		}
	case []any:
		for i, e := range v {
			v[i] = wholeNumbers(e)
		}
	}
	return v
}

// DeregisterPlugin removes a plugin; nodes then remove it.
func (e *Endpoint) DeregisterPlugin(ctx context.Context, name string, cas *uint64) (uint64, error) {
	if err := e.mayChangeRegistry(); err != nil {
		return 0, err
	}
	cmd := &fsm.DeletePlugin{Name: name}
	if cas != nil {
		cmd.CAS, cmd.Index = true, *cas
	}
	return e.propose(ctx, cmd)
}

// SteerPluginRollout pauses, resumes or reverts a roll-out.
func (e *Endpoint) SteerPluginRollout(ctx context.Context, name, act string) (*model.PluginSpec, uint64, error) {
	if err := e.mayChangeRegistry(); err != nil {
		return nil, 0, err
	}
	return e.changePlugin(ctx, name, &fsm.SteerPluginRollout{Name: name, Act: act})
}

// UploadPluginFile stores a file for nodes to fetch. It is acknowledged when more than half of
// the servers have it.
func (e *Endpoint) UploadPluginFile(ctx context.Context, digest string, body io.Reader) (*api.PluginFile, error) {
	if err := e.mayChangeRegistry(); err != nil {
		return nil, err
	}
	f, err := e.PluginFiles.Put(ctx, digest, body)
	if err != nil {
		return nil, err
	}
	return &api.PluginFile{Digest: f.Digest, Size: f.Size}, nil
}

// PluginFile describes an uploaded file.
func (e *Endpoint) PluginFile(digest string) (*api.PluginFile, error) {
	f, err := e.PluginFiles.Stat(digest)
	if err != nil {
		return nil, err
	}
	return &api.PluginFile{Digest: f.Digest, Size: f.Size}, nil
}
