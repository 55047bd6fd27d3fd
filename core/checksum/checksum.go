// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package checksum says whether the checksum of an artifact can be compared with anything,
// so that a job with one that cannot is refused before it runs.
package checksum

import (
	"encoding/hex"
	"net/url"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// digestBytes is the digest length of each checksum algorithm.
var digestBytes = map[string]int{"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}

// Check returns an error of class InvalidArgument for a checksum with an unknown
// algorithm, the wrong length, or digits that are not hexadecimal.
func Check(text string) error {
	kind, value, ok := strings.Cut(text, ":")
	if ok && kind == "file" {
		u, err := url.Parse(value)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" {
			return errdefs.InvalidArgumentf("checksum file %q is not an http or https URL", value)
		}
		return nil
	}
	if !ok {
		kind, value = "", text
	}
	raw, err := hex.DecodeString(value)
	if err != nil {
		return errdefs.InvalidArgumentf("checksum %q is not hexadecimal: %w", text, err)
	}
	for k, n := range digestBytes {
		if len(raw) == n && (kind == "" || strings.EqualFold(kind, k)) {
			return nil
		}
	}
	return errdefs.InvalidArgumentf("checksum %q has no known type, or a length that does not fit its type; write md5:, sha1:, sha256:, sha512: or file: before it", text)
}
