// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"io"
	"time"

	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/pluginfiles"
	"github.com/drover-project/drover/sdk/errdefs"
)

// openPluginFile opens an uploaded file for a node.
func (s *Server) openPluginFile(digest string) (io.ReadCloser, error) {
	if s.files == nil {
		return nil, errdefs.FailedPreconditionf("this server has no data directory and so keeps no plugin files")
	}
	return s.files.Open(digest)
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
