// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package mirror keeps the uploaded plugin files of a server as the registry of plugins
// says: an upload is acknowledged when more than half of the servers have the file, those
// that others have are copied, so that none is lost with the servers to which it was
// uploaded, and those that nothing needs are removed. core/server composes it.
package mirror

import (
	"context"
	"errors"
	"io"
	"slices"
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
	// Files is the store of this server; nil if it has no data directory and keeps none.
	Files *pluginfiles.Store
	State *state.Store
	// Others returns the ids of the other servers, and Part reads a part of a file of one
	// of them: see pluginfiles.Store.Part.
	Others func() ([]string, error)
	Part   func(ctx context.Context, server, digest string, offset int64) ([]byte, error)
	// Keep makes another server copy a file from this one: see Take. Unimplemented: its
	// release is too old for that.
	Keep   func(ctx context.Context, server, digest string) error
	Logger hclog.Logger
}

// keepsNone is the error of a server that keeps no files.
func keepsNone() error {
	return errdefs.FailedPreconditionf("this server has no data directory and so keeps no plugin files; serve the file by HTTP and register its URL")
}

// Put stores an uploaded file here and on others, until more than half of the servers have
// it. Servers of older releases, which cannot be asked, do not count; they copy the file when
// it is registered.
func (m *Mirror) Put(ctx context.Context, digest string, body io.Reader) (pluginfiles.File, error) {
	if m.Files == nil {
		return pluginfiles.File{}, keepsNone()
	}
	f, err := m.Files.Put(digest, body)
	if err != nil {
		return f, err
	}
	return f, m.spread(ctx, digest)
}

// spread makes other servers copy a file of this one.
func (m *Mirror) spread(ctx context.Context, digest string) error {
	others, err := m.Others()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan error, len(others))
	for _, id := range others {
		go func() { answers <- m.Keep(ctx, id, digest) }()
	}
	all, have, heard := 1+len(others), 1, 0
	var failed error
	for ; have*2 <= all && heard < len(others); heard++ {
		switch err := <-answers; {
		case err == nil:
			have++
		case errdefs.IsUnimplemented(err):
			all--
		default:
			failed = errors.Join(failed, err)
		}
	}
	cancel() // those that have not answered copy the file when it is registered
	for ; heard < len(others); heard++ {
		<-answers
	}
	if have*2 <= all {
		return errdefs.Unavailablef("%d of %d servers have the plugin file, which could be lost with them; upload it again when more of them answer: %w", have, all, failed)
	}
	return nil
}

// Stat describes a file of this server.
func (m *Mirror) Stat(digest string) (pluginfiles.File, error) {
	if m.Files == nil {
		return pluginfiles.File{}, keepsNone()
	}
	return m.Files.Stat(digest)
}

// Have makes sure that this server has a file, and copies it from another server if
// necessary. NotFound: no server has it.
func (m *Mirror) Have(ctx context.Context, digest string) error {
	if _, err := m.Stat(digest); !errdefs.IsNotFound(err) {
		return err
	}
	return m.fetch(ctx, digest, "")
}

// Take makes this server have a file that another one has, for that one.
func (m *Mirror) Take(ctx context.Context, server, digest string) error {
	if _, err := m.Stat(digest); !errdefs.IsNotFound(err) {
		return err
	}
	return m.fetch(ctx, digest, server)
}

// Open opens an uploaded file for a node. A file that was uploaded to another server is
// copied first.
func (m *Mirror) Open(ctx context.Context, digest string) (io.ReadCloser, error) {
	if err := m.Have(ctx, digest); err != nil {
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

// fetch copies a file from another server that has it; first is asked first, if it is given.
func (m *Mirror) fetch(ctx context.Context, digest, first string) error {
	others, err := m.Others()
	if err != nil {
		return err
	}
	if i := slices.Index(others, first); i > 0 {
		others[0], others[i] = others[i], others[0]
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

// RunCopies copies missing files until ctx ends.
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
				failed = append(failed, m.fetch(ctx, r.Digest, ""))
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
