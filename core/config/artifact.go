// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Artifact is client.artifact: how the node fetches artifacts. Times are durations
// ("30m"; "0" means no limit), sizes are written as "100GB".
type Artifact struct {
	HTTPReadTimeout               string   `json:"http_read_timeout,omitempty"`
	HTTPMaxSize                   string   `json:"http_max_size,omitempty"`
	GCSTimeout                    string   `json:"gcs_timeout,omitempty"`
	GitTimeout                    string   `json:"git_timeout,omitempty"`
	HgTimeout                     string   `json:"hg_timeout,omitempty"`
	S3Timeout                     string   `json:"s3_timeout,omitempty"`
	DecompressionSizeLimit        string   `json:"decompression_size_limit,omitempty"`
	DecompressionFileCountLimit   *int     `json:"decompression_file_count_limit,omitempty"`
	DisableArtifactInspection     bool     `json:"disable_artifact_inspection,omitempty"`
	DisableFilesystemIsolation    bool     `json:"disable_filesystem_isolation,omitempty"`
	FilesystemIsolationExtraPaths []string `json:"filesystem_isolation_extra_paths,omitempty"`
	SetEnvironmentVariables       string   `json:"set_environment_variables,omitempty"`
}

// defaultArtifact returns the documented defaults.
func defaultArtifact() Artifact {
	files := 4096
	return Artifact{
		HTTPReadTimeout: "30m", GCSTimeout: "30m", GitTimeout: "30m", HgTimeout: "30m", S3Timeout: "30m",
		HTTPMaxSize: "100GB", DecompressionSizeLimit: "100GB", DecompressionFileCountLimit: &files,
	}
}

// Timeout returns a timeout that Finish has validated; zero means no limit.
func (a Artifact) Timeout(text string) time.Duration {
	d, _ := nonNegative(text) // Finish has rejected invalid text
	return d
}

// Size returns a size in bytes that Finish has validated; zero means no limit.
func (a Artifact) Size(text string) int64 {
	n, _ := parseSize(text) // Finish has rejected invalid text
	return n
}

// Variables returns the names in set_environment_variables.
func (a Artifact) Variables() []string {
	var out []string
	for name := range strings.SplitSeq(a.SetEnvironmentVariables, ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// extraPath matches the kind (file or directory), the permissions and the path.
var extraPath = regexp.MustCompile(`^[fd]:[rwcx]+:(.+)$`)

// problems lists the invalid values of the block.
func (a Artifact) problems() []string {
	var out []string
	add := func(key, format string, args ...any) {
		out = append(out, "client.artifact."+key+": "+fmt.Sprintf(format, args...))
	}
	for key, text := range map[string]string{
		"http_read_timeout": a.HTTPReadTimeout, "gcs_timeout": a.GCSTimeout, "git_timeout": a.GitTimeout,
		"hg_timeout": a.HgTimeout, "s3_timeout": a.S3Timeout,
	} {
		if _, err := nonNegative(text); err != nil {
			add(key, "%q is not a duration such as \"30m\" (0 is no limit)", text)
		}
	}
	for key, text := range map[string]string{"http_max_size": a.HTTPMaxSize, "decompression_size_limit": a.DecompressionSizeLimit} {
		if _, err := parseSize(text); err != nil {
			add(key, "%q is not a size such as \"100GB\" (0 is no limit)", text)
		}
	}
	if n := a.DecompressionFileCountLimit; n != nil && *n < 0 {
		add("decompression_file_count_limit", "%d is negative; use 0 for no limit", *n)
	}
	for _, p := range a.FilesystemIsolationExtraPaths {
		if m := extraPath.FindStringSubmatch(p); m == nil || !filepath.IsAbs(m[1]) {
			add("filesystem_isolation_extra_paths", "%q is not of the form \"f:MODE:/PATH\" (a file) or \"d:MODE:/PATH\" (a folder), where MODE has letters of r, w, c, x", p)
		}
	}
	return out
}

func nonNegative(text string) (time.Duration, error) {
	d, err := ParseDuration(text)
	if err == nil && d < 0 {
		err = errdefs.InvalidArgumentf("%q is negative", text)
	}
	return d, err
}

func parseSize(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := humanize.ParseBytes(text)
	if err != nil {
		return 0, fmt.Errorf("read the size %q: %w", text, err)
	}
	if n > math.MaxInt64/4 {
		return 0, errdefs.InvalidArgumentf("size %q is too large", text)
	}
	return int64(n), nil
}
