// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import "github.com/drover-project/drover/core/pluginfiles/mirror"

// mirror returns what keeps the uploaded plugin files of this server.
func (s *Server) mirror() *mirror.Mirror {
	return &mirror.Mirror{Files: s.files, State: s.store, Others: s.otherIDs, Part: s.peers.FilePart, Logger: s.cfg.Logger.Named("pluginfiles")}
}
