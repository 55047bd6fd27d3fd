// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/pluginfiles"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// openPluginFile opens an uploaded file for a node. A file that was uploaded to another
// server is copied first.
func (s *Server) openPluginFile(ctx context.Context, digest string) (io.ReadCloser, error) {
	if s.files == nil {
		return nil, errdefs.FailedPreconditionf("this server has no data directory and so keeps no plugin files")
	}
	file, err := s.files.Open(digest)
	if !errdefs.IsNotFound(err) {
		return file, err
	}
	if err := s.copyPluginFile(ctx, digest); err != nil {
		return nil, err
	}
	return s.files.Open(digest)
}

// partOfPluginFile reads a file of this server for another server.
func (s *Server) partOfPluginFile(digest string, offset int64) ([]byte, error) {
	if s.files == nil {
		return nil, errdefs.NotFoundf("this server has no plugin file %s: it has no data directory", digest)
	}
	return s.files.Part(digest, offset)
}

// copyPluginFile copies a file from another server that has it.
func (s *Server) copyPluginFile(ctx context.Context, digest string) error {
	members, _, err := s.raft.Configuration()
	if err != nil {
		return err
	}
	var sources []pluginfiles.Source
	for _, m := range members {
		if m.ID != s.who.id {
			sources = append(sources, func(ctx context.Context, digest string, offset int64) ([]byte, error) {
				return s.peers.FilePart(ctx, m.ID, digest, offset)
			})
		}
	}
	return s.files.Copy(ctx, digest, sources)
}

// copyRetry is how often files are looked for that no server could give.
const copyRetry = time.Minute

// mirrorPluginFiles copies the uploaded files to which the registry refers, so that none is
// lost with the server to which it was uploaded.
func (s *Server) mirrorPluginFiles(ctx context.Context) {
	if s.files == nil || !s.joins() {
		return
	}
	retry := time.NewTicker(copyRetry)
	defer retry.Stop()
	last := ""
	for {
		watching, stop := context.WithCancel(ctx)
		changed := s.store.Watch(watching, state.Key{Table: state.TablePluginSpecs})
		err := s.mirrorOnce(ctx)
		why := ""
		if err != nil {
			why = err.Error()
		}
		if ctx.Err() == nil && why != "" && why != last {
			s.cfg.Logger.Warn("plugin files of other servers could not be copied; it is tried again", "error", err)
		}
		last = why
		select {
		case <-changed:
		case <-retry.C:
		case <-ctx.Done():
		}
		stop()
		if ctx.Err() != nil {
			return
		}
	}
}

func (s *Server) mirrorOnce(ctx context.Context) (err error) {
	defer panics.Handle(func(p *panics.Panic) {
		err = errdefs.Internalf("copying plugin files panicked, which is a defect of drover: %v\n%s", p.Value, p.Stack)
	})
	var failed []error
	for p := range s.store.View().PluginSpecs() {
		for _, r := range []*model.PluginRelease{p.Release, p.Previous} {
			if r == nil || r.Source != model.PluginSourceUploaded {
				continue
			}
			if _, err := s.files.Stat(r.Digest); errdefs.IsNotFound(err) {
				failed = append(failed, s.copyPluginFile(ctx, r.Digest))
			}
		}
	}
	return errors.Join(failed...)
}

// sweepPluginFiles removes uploaded files to which the registry no longer refers.
func (s *Server) sweepPluginFiles(ctx context.Context) {
	if s.files == nil {
		return
	}
	ticker := time.NewTicker(pluginfiles.Grace)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			s.sweepOnce(now)
		case <-ctx.Done():
			return
		}
	}
}

func (s *Server) sweepOnce(now time.Time) {
	defer panics.Handle(func(p *panics.Panic) {
		s.cfg.Logger.Error("plugin files that nothing needs could not be removed; this is a defect of drover", p.Fields()...)
	})
	if err := s.files.Sweep(now, s.namesPluginFile()); err != nil {
		s.cfg.Logger.Warn("plugin files that nothing needs could not be removed", "error", err)
	}
}

// namesPluginFile returns a function that reports whether the registry refers to a
// file.
func (s *Server) namesPluginFile() func(digest string) bool {
	named := map[string]bool{}
	for p := range s.store.View().PluginSpecs() {
		named[p.Release.Digest] = true
		if p.Previous != nil {
			named[p.Previous.Digest] = true
		}
	}
	return func(digest string) bool { return named[digest] }
}
