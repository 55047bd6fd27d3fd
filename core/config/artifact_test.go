// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestArtifactBlockIsReadOverItsDefaults(t *testing.T) {
	c := config.DevDefaults()
	err := c.Merge("a.hcl", []byte(`client {
artifact {
  http_read_timeout = "5m"
  http_max_size = "1GiB"
  decompression_file_count_limit = 0
  set_environment_variables = "HTTP_PROXY, HTTPS_PROXY"
  filesystem_isolation_extra_paths = ["d:r:/srv/artifacts"]
}
}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(); err != nil {
		t.Fatal(err)
	}
	a := c.Client.Artifact
	if a.Timeout(a.HTTPReadTimeout) != 5*time.Minute || a.Timeout(a.GitTimeout) != 30*time.Minute || a.Size(a.HTTPMaxSize) != 1<<30 ||
		a.Size(a.DecompressionSizeLimit) != 100e9 || *a.DecompressionFileCountLimit != 0 || len(a.Variables()) != 2 || a.Variables()[1] != "HTTPS_PROXY" {
		t.Errorf("got %+v", a)
	}
	if len(c.Warnings) != 0 {
		t.Errorf("got warnings %q", c.Warnings)
	}
}

func TestBadArtifactValuesAreNamed(t *testing.T) {
	for line, key := range map[string]string{
		`http_read_timeout = "soon"`:                           "http_read_timeout",
		`git_timeout = "-1s"`:                                  "git_timeout",
		`http_max_size = "big"`:                                "http_max_size",
		`decompression_size_limit = "99999999999GB"`:           "decompression_size_limit",
		`decompression_file_count_limit = -1`:                  "decompression_file_count_limit",
		`filesystem_isolation_extra_paths = ["/etc"]`:          "filesystem_isolation_extra_paths",
		`filesystem_isolation_extra_paths = ["d:r:relative"]`:  "filesystem_isolation_extra_paths",
		`filesystem_isolation_extra_paths = ["d:rq:/absolut"]`: "filesystem_isolation_extra_paths",
	} {
		c := config.DevDefaults()
		if err := c.Merge("a.hcl", []byte("client {\nartifact {\n"+line+"\n}\n}")); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		err := c.Finish()
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "client.artifact."+key) {
			t.Errorf("%s: got %v, want an error that names %s", line, err, key)
		}
	}
}
