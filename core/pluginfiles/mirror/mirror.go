// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package mirror keeps the uploaded plugin files of a server as the registry of plugins
// says: it copies those that other servers have, so that none is lost with the server to
// which it was uploaded, and removes those that nothing needs. core/server composes it.
package mirror

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginfiles"
	"github.com/drover-project/drover/core/recur"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Mirror keeps the files of one server. All fields except Files are required.
type Mirror struct {
	// Files are those of this server; nil if it has no data directory and keeps none.
	Files *pluginfiles.Store
	State *state.Store
	// Others returns the ids of the other servers, and Part reads a part of a file of one
	// of them: see pluginfiles.Store.Part.
	Others func() ([]string, error)
	Part   func(ctx context.Context, server, digest string, offset int64) ([]byte, error)
	Logger hclog.Logger
}

// Open opens an uploaded file for a node. A file that was uploaded to another server is
// copied first.
func (m *Mirror) Open(ctx context.Context, digest string) (io.ReadCloser, error) {
	if m.Files == nil {
		return nil, errdefs.FailedPreconditionf("this server has no data directory and so keeps no plugin files")
	}
	file, err := m.Files.Open(digest)
	if !errdefs.IsNotFound(err) {
		return file, err
	}
	if err := m.fetch(ctx, digest); err != nil {
		return nil, err
	}
	return m.Files.Open(digest)
}

// Own reads a part of a file of this server, for another server.
func (m *Mirror) Own(digest string, offset int64) ([]byte, error) {
	if m.Files == nil {
		return nil, errdefs.NotFoundf("this server has no plugin file %s: it has no data directory", digest)
	}
	return m.Files.Part(digest, offset)
}

// fetch copies a file from another server that has it.
func (m *Mirror) fetch(ctx context.Context, digest string) error {
	others, err := m.Others()
	if err != nil {
		return err
	}
	var sources []pluginfiles.Source
	for _, id := range others {
		sources = append(sources, func(ctx context.Context, digest string, offset int64) ([]byte, error) {
			return m.Part(ctx, id, digest, offset)
		})
	}
	return m.Files.Copy(ctx, digest, sources)
}

// copyRetry is how often files are looked for that no server could give.
const copyRetry = time.Minute

// RunCopies copies what is missing until ctx ends.
func (m *Mirror) RunCopies(ctx context.Context) {
	if m.Files == nil {
		return
	}
	recur.Loop{
		Period: copyRetry, Store: m.State, Tables: []string{state.TablePluginSpecs},
		Trouble: "plugin files of other servers could not be copied; it is tried again", Logger: m.Logger,
	}.Run(ctx, m.copyMissing)
}

func (m *Mirror) copyMissing(ctx context.Context) error {
	var failed []error
	for p := range m.State.View().PluginSpecs() {
		for _, r := range []*model.PluginRelease{p.Release, p.Previous} {
			if r == nil || r.Source != model.PluginSourceUploaded {
				continue
			}
			if _, err := m.Files.Stat(r.Digest); errdefs.IsNotFound(err) {
				failed = append(failed, m.fetch(ctx, r.Digest))
			}
		}
	}
	return errors.Join(failed...)
}

// RunSweeps removes files to which the registry no longer refers, until ctx ends.
func (m *Mirror) RunSweeps(ctx context.Context) {
	if m.Files == nil {
		return
	}
	// Later: a server that has just started may not know the registry yet.
	recur.Loop{Period: pluginfiles.Grace, Later: true, Trouble: "plugin files that nothing needs could not be removed", Logger: m.Logger}.
		Run(ctx, func(context.Context) error { return m.Files.Sweep(time.Now(), m.needed()) })
}

// needed returns a function that reports whether the registry refers to a file.
func (m *Mirror) needed() func(digest string) bool {
	named := map[string]bool{}
	for p := range m.State.View().PluginSpecs() {
		named[p.Release.Digest] = true
		if p.Previous != nil {
			named[p.Previous.Digest] = true
		}
	}
	return func(digest string) bool { return named[digest] }
}
