// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/registry"

	"github.com/drover-project/drover/sdk/errdefs"
)

// PluginRegistry are the operations on the cluster's registry of plugins.
type PluginRegistry interface {
	// RegisterPlugin stores a plugin. If cas is set, the plugin must have that modify
	// index.
	RegisterPlugin(ctx context.Context, p *model.PluginSpec, cas *uint64) (*model.PluginSpec, uint64, error)
	DeregisterPlugin(ctx context.Context, name string, cas *uint64) (index uint64, err error)
	// SteerPluginRollout pauses, resumes or reverts a roll-out.
	SteerPluginRollout(ctx context.Context, name, act string) (*model.PluginSpec, uint64, error)
	// UploadPluginFile stores a file with the given digest, from where nodes fetch it.
	UploadPluginFile(ctx context.Context, digest string, body io.Reader) (*PluginFile, error)
	// PluginFile describes an uploaded file. NotFound: this server does not have it.
	PluginFile(digest string) (*PluginFile, error)
}

// Limits of an upload.
const (
	maxPluginFileBytes = 1 << 30
	pluginUploadTime   = time.Hour
)

// RedactedValue replaces each value of a plugin's configuration in answers.
const RedactedValue = "<redacted>"

// PluginFile is an uploaded file of a plugin.
type PluginFile struct {
	Digest string
	Size   int64
}

// PluginStub is a plugin of the registry in a list.
type PluginStub struct {
	Name              string
	Version           string
	Digest            string
	Source            string
	NodePool          string
	Datacenters       []string
	Status            string
	StatusDescription string
	InFlight          int
	CreateIndex       uint64
	ModifyIndex       uint64
}

// PluginNode is the status of a node for a plugin of the registry.
type PluginNode struct {
	ID          string
	Name        string
	Datacenter  string
	NodePool    string
	Standing    string // done, in flight, waiting, failed, down or not targeted
	Description string
	Version     string // version that the node runs
	Digest      string
	State       string
	Deadline    time.Time // for a node in flight, otherwise zero
}

// PluginRegisterResponse is the result of a registration.
type PluginRegisterResponse struct {
	Index    uint64
	Revision uint64 // revision of the release that is rolled out
	Status   string
}

func listPluginSpecs(v View, q *query) result {
	prefix := q.prefix()
	p := page[*model.PluginSpec]{
		items: v.PluginSpecs(),
		keep:  func(p *model.PluginSpec) bool { return strings.HasPrefix(p.Name, prefix) },
		order: func(p *model.PluginSpec) order { return order{id: p.Name} },
	}
	return listOf(q, p, pluginStub)
}

func pluginStub(p *model.PluginSpec) *PluginStub {
	return &PluginStub{
		Name: p.Name, Version: p.Release.Version, Digest: p.Release.Digest, Source: p.Release.Source,
		NodePool: p.NodePool, Datacenters: orEmpty(p.Datacenters),
		Status: p.Rollout.Status, StatusDescription: p.Rollout.Description, InFlight: len(p.Rollout.InFlight),
		CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex,
	}
}

func thePluginSpec(v View, q *query) (*model.PluginSpec, error) {
	name := q.r.PathValue("name")
	return orMissing(v.PluginSpecByName(name), "the registry has no plugin \""+name+"\"")
}

func pluginSpecIndex(p *model.PluginSpec) uint64 { return p.ModifyIndex }

func showPluginSpec(_ View, q *query, p *model.PluginSpec) result {
	if !q.flag("reveal") {
		p = redacted(p)
	}
	return shown(p)
}

// redacted returns the plugin without the values of its configuration, which may be
// secrets.
func redacted(p *model.PluginSpec) *model.PluginSpec {
	c := *p
	c.Release, c.Previous = redactedRelease(p.Release), redactedRelease(p.Previous)
	return &c
}

func redactedRelease(r *model.PluginRelease) *model.PluginRelease {
	if r == nil || r.Config == nil {
		return r
	}
	c := *r
	c.Config = redact(r.Config).(map[string]any)
	return &c
}

func redact(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = redact(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = redact(e)
		}
		return out
	}
	return RedactedValue
}

func listPluginNodes(v View, q *query) result {
	p, err := thePluginSpec(v, q)
	if err != nil {
		return failed(err)
	}
	prefix := q.prefix()
	list := page[*PluginNode]{
		items: standings(v, p),
		keep:  func(n *PluginNode) bool { return strings.HasPrefix(n.ID, prefix) },
		order: func(n *PluginNode) order { return order{id: n.ID} },
	}
	return listOf(q, list, func(n *PluginNode) *PluginNode { return n })
}

// standings yields the nodes that a plugin targets or that have it.
func standings(v View, p *model.PluginSpec) iter.Seq[*PluginNode] {
	target := registry.NewTarget(p)
	return func(yield func(*PluginNode) bool) {
		for n := range v.Nodes() {
			standing, why := target.Of(n)
			if standing == registry.Elsewhere && n.PluginReleases[p.Name] == nil {
				continue
			}
			row := &PluginNode{ID: n.ID, Name: n.Name, Datacenter: n.Datacenter, NodePool: n.NodePool, Standing: string(standing), Description: why}
			if a := p.Rollout.Admits(n.ID); a != nil {
				row.Deadline = time.Unix(0, a.Deadline).UTC()
			}
			if has := n.Plugins[p.Name]; has != nil {
				row.Version, row.Digest, row.State = has.Version, has.Digest, has.State
			}
			if !yield(row) {
				return
			}
		}
	}
}

func (s *Server) registerPlugin(w http.ResponseWriter, r *http.Request) (any, error) {
	var body struct {
		model.PluginSpec
		HealthyDeadline flexDuration
		MinHealthyTime  flexDuration
	}
	if err := decodeBody(r, &body, false); err != nil {
		return nil, err
	}
	spec := body.PluginSpec
	spec.HealthyDeadline, spec.MinHealthyTime = time.Duration(body.HealthyDeadline), time.Duration(body.MinHealthyTime)
	if spec.Name == "" {
		spec.Name = r.PathValue("name")
	}
	if spec.Name != r.PathValue("name") {
		return nil, fail(http.StatusBadRequest, "the name of the plugin differs from the name in the request")
	}
	cas, err := casOf(r)
	if err != nil {
		return nil, err
	}
	stored, index, err := s.backend.RegisterPlugin(r.Context(), &spec, cas)
	return changedPlugin(w, stored, index, err)
}

func changedPlugin(w http.ResponseWriter, p *model.PluginSpec, index uint64, err error) (any, error) {
	if err != nil {
		return nil, refusedPlugin(err)
	}
	setIndex(w, index)
	return &PluginRegisterResponse{Index: index, Revision: p.Release.Revision, Status: p.Rollout.Status}, nil
}

// refusedPlugin answers with 409 if the current state prevents the request: neither
// the request nor the server is at fault.
func refusedPlugin(err error) error {
	switch errdefs.ClassOf(err) {
	case errdefs.Conflict, errdefs.FailedPrecondition:
		return fail(http.StatusConflict, err.Error())
	case errdefs.Unavailable:
		return fail(http.StatusServiceUnavailable, err.Error())
	}
	return err
}

func (s *Server) deregisterPlugin(w http.ResponseWriter, r *http.Request) (any, error) {
	cas, err := casOf(r)
	if err != nil {
		return nil, err
	}
	index, err := s.backend.DeregisterPlugin(r.Context(), r.PathValue("name"), cas)
	if err != nil {
		return nil, refusedPlugin(err)
	}
	setIndex(w, index)
	return &IndexResponse{Index: index}, nil
}

func (s *Server) steerPluginRollout(w http.ResponseWriter, r *http.Request) (any, error) {
	var body struct{ Action string }
	if err := decodeBody(r, &body, false); err != nil {
		return nil, err
	}
	p, index, err := s.backend.SteerPluginRollout(r.Context(), r.PathValue("name"), body.Action)
	return changedPlugin(w, p, index, err)
}

func (s *Server) pluginFile(_ http.ResponseWriter, r *http.Request) (any, error) {
	f, err := s.backend.PluginFile(r.PathValue("digest"))
	if err != nil {
		return nil, refusedPlugin(err)
	}
	return f, nil
}

func (s *Server) uploadPluginFile(_ http.ResponseWriter, r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), pluginUploadTime)
	defer cancel()
	f, err := s.backend.UploadPluginFile(ctx, r.PathValue("digest"), r.Body)
	if err != nil {
		return nil, refusedPlugin(err)
	}
	return f, nil
}
