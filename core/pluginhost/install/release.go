// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package install

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Release is one version of a plugin to run.
type Release struct {
	Name    string         // file name in plugin_dir
	Version string         // version that the plugin must report; "" means any
	Source  string         // http(s) URL or an absolute path on this machine
	Digest  string         // "sha256:HEX"; required for plain http URLs, verified if given
	Config  map[string]any // replaces the block of the agent's configuration if not nil
	Size    int64          // size of the file, if known in advance; used to report progress
}

// pluginName matches the valid names of plugins: a file name without the suffix of an
// executable.
var pluginName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// Check rejects a release that cannot be installed; body is its file if that was sent
// with the request, otherwise nil.
func (r Release) Check(body io.Reader) error {
	if err := checkName(r.Name); err != nil {
		return err
	}
	if r.Digest != "" {
		if err := checkDigest(r.Digest); err != nil {
			return err
		}
	}
	if body != nil && r.Digest == "" {
		return errdefs.InvalidArgumentf("plugin %q: a file that is sent needs its digest, so that one that arrives in part is not taken for whole", r.Name)
	}
	if body != nil {
		return nil
	}
	return checkSource(r.Source, r.Digest)
}

func checkName(name string) error {
	if !pluginName.MatchString(name) {
		return errdefs.InvalidArgumentf("the plugin name %q cannot be used: it is a file name of letters, digits, '.', '_' and '-', which begins with a letter or digit", name)
	}
	return nil
}

// SameConfig compares configs as JSON, because the store does not preserve the types
// of numbers.
func SameConfig(a, b map[string]any) bool {
	if (a == nil) != (b == nil) {
		return false
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
