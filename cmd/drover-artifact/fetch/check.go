// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fetch

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	getter "github.com/hashicorp/go-getter"

	"github.com/drover-project/drover/cmd/drover-artifact/unpack"
	"github.com/drover-project/drover/core/checksum"
	"github.com/drover-project/drover/sdk/errdefs"
)

// schemes are the supported getters.
var schemes = []string{"file", "gcs", "git", "hg", "http", "https", "s3"}

// gcsCredentials are the environment variables that hold credentials of Google Cloud
// Storage. If none of them is set, the GCS client would ask the metadata service for
// the identity of the machine.
var gcsCredentials = []string{"GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_OAUTH_ACCESS_TOKEN", "STORAGE_EMULATOR_HOST", "GCE_METADATA_HOST"}

// check rejects a source that can never be fetched before anything is fetched, and
// determines which getter the source uses.
func (j *job) check(source string) error {
	scheme, rest := split(source)
	if !slices.Contains(schemes, scheme) {
		return errdefs.InvalidArgumentf("sources of kind %q are not supported; use one of %s", scheme, strings.Join(schemes, ", "))
	}
	j.scheme = scheme
	bare, subdir := getter.SourceDirSubdir(rest)
	u, err := url.Parse(bare)
	if err != nil {
		return errdefs.InvalidArgumentf("the source is not a URL: %w", err)
	}
	j.part = subdir
	if hasDotDot(subdir) || hasDotDot(u.Query().Get("filename")) {
		return errdefs.InvalidArgumentf("the source has a path with \"..\"; write it without")
	}
	if sum := u.Query().Get("checksum"); sum != "" {
		if err := checksum.Check(sum); err != nil {
			return err
		}
	}
	if a := u.Query().Get("archive"); a != "" && a != "false" && a != "0" && a != "true" && a != "1" {
		if !slices.Contains(unpack.Kinds(), a) {
			return errdefs.InvalidArgumentf("archives of kind %q are not supported; use one of %s", a, strings.Join(unpack.Kinds(), ", "))
		}
	}
	if scheme == "file" {
		if err := j.checkFile(u); err != nil {
			return err
		}
	}
	if scheme == "gcs" && !slices.ContainsFunc(gcsCredentials, func(name string) bool { return os.Getenv(name) != "" }) {
		return errdefs.InvalidArgumentf("no credentials for Google Cloud Storage; name one of these variables in artifact.set_environment_variables of the agent: %s", strings.Join(gcsCredentials, ", "))
	}
	if (scheme == "git" || scheme == "hg") && j.req.Mode == "file" {
		return errdefs.InvalidArgumentf("a repository cannot be fetched with mode \"file\"; use mode \"any\" or \"dir\"")
	}
	j.guard = newGuard(u.Hostname())
	return nil
}

// checkFile allows a local file only below a path that the agent's configuration
// lists as readable.
func (j *job) checkFile(u *url.URL) error {
	path := filepath.Clean(u.Path)
	for _, text := range j.req.ExtraPaths {
		p, err := parseExtraPath(text)
		if err != nil {
			return err
		}
		if strings.Contains(p.mode, "r") && (path == p.path || !p.file && strings.HasPrefix(path, strings.TrimSuffix(p.path, "/")+"/")) {
			return nil
		}
	}
	return errdefs.InvalidArgumentf("artifacts cannot be copied from files of the node; to allow a path, list it in artifact.filesystem_isolation_extra_paths of the agent (such as \"d:r:%s\")", filepath.Dir(path))
}

// extraPath is a path that the agent's configuration makes accessible inside the
// sandbox.
type extraPath struct {
	file bool
	mode string
	path string
}

func parseExtraPath(text string) (extraPath, error) {
	kind, rest, ok := strings.Cut(text, ":")
	mode, path, ok2 := strings.Cut(rest, ":")
	if !ok || !ok2 || kind != "f" && kind != "d" || mode == "" || strings.Trim(mode, "rwcx") != "" || !filepath.IsAbs(path) {
		return extraPath{}, errdefs.InvalidArgumentf("artifact.filesystem_isolation_extra_paths has %q; write \"f:MODE:/PATH\" or \"d:MODE:/PATH\" with MODE of r, w, c, x", text)
	}
	return extraPath{file: kind == "f", mode: mode, path: filepath.Clean(path)}, nil
}

func hasDotDot(path string) bool {
	return slices.Contains(strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' }), "..")
}
