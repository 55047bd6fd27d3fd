// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"github.com/drover-project/drover/core/agent/artifact"
	"github.com/drover-project/drover/core/agent/artifact/wire"
	"github.com/drover-project/drover/core/config"
)

// artifactConfig converts client.artifact for the node's fetcher.
func artifactConfig(a config.Artifact) artifact.Config {
	out := artifact.DefaultConfig()
	out.Limits = wire.Limits{
		HTTPReadTimeout: a.Timeout(a.HTTPReadTimeout), GCSTimeout: a.Timeout(a.GCSTimeout), GitTimeout: a.Timeout(a.GitTimeout),
		HgTimeout: a.Timeout(a.HgTimeout), S3Timeout: a.Timeout(a.S3Timeout),
		HTTPMaxBytes: a.Size(a.HTTPMaxSize), UnpackMaxBytes: a.Size(a.DecompressionSizeLimit), UnpackMaxFiles: out.Limits.UnpackMaxFiles,
	}
	if a.DecompressionFileCountLimit != nil {
		out.Limits.UnpackMaxFiles = *a.DecompressionFileCountLimit
	}
	out.DisableFilesystemIsolation, out.DisableArtifactInspection = a.DisableFilesystemIsolation, a.DisableArtifactInspection
	out.ExtraPaths, out.Environment = a.FilesystemIsolationExtraPaths, a.Variables()
	return out
}
