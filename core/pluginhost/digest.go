// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/drover-project/drover/sdk/errdefs"
)

// digests remembers the digests of files, which are read again only once they
// were replaced: many plugins may be links to one large file.
type digests struct {
	mu     sync.Mutex
	byPath map[string]knownDigest
}

type knownDigest struct{ identity, digest string }

func newDigests() *digests { return &digests{byPath: map[string]knownDigest{}} }

// of returns "sha256:HEX" of the file behind path.
func (d *digests) of(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", errdefs.NotFoundf("digest of plugin %s: %w", path, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	id := identity(target)
	if known, ok := d.byPath[target]; ok && known.identity == id {
		return known.digest, nil
	}
	f, err := os.Open(target)
	if err != nil {
		return "", errdefs.FailedPreconditionf("digest of plugin %s: %w", path, err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("digest of plugin %s: %w", path, err)
	}
	digest := "sha256:" + hex.EncodeToString(sum.Sum(nil))
	d.byPath[target] = knownDigest{identity: id, digest: digest}
	return digest, nil
}
