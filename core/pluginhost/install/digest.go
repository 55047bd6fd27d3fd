// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package install

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/drover-project/drover/sdk/errdefs"
)

// digests caches the digests of files; a file is read again only after it was
// replaced. Many plugins may be links to one large file, as are their stored versions:
// the cache recognizes it under all paths.
type digests struct {
	mu    sync.Mutex
	known []knownDigest // the newest last
}

type knownDigest struct {
	file   fs.FileInfo
	digest string
}

// maxDigests bounds the number of remembered digests. A node has far fewer files.
const maxDigests = 256

// of returns "sha256:HEX" of the file behind path.
func (d *digests) of(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", errdefs.NotFoundf("digest of plugin %s: %w", path, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, one := range d.known {
		if !os.SameFile(one.file, info) {
			continue
		}
		if one.file.Size() == info.Size() && one.file.ModTime().Equal(info.ModTime()) {
			return one.digest, nil
		}
		d.known = slices.Delete(d.known, i, i+1)
		break
	}
	digest, err := digestOf(path)
	if err != nil {
		return "", err
	}
	if len(d.known) == maxDigests {
		d.known = slices.Delete(d.known, 0, 1)
	}
	d.known = append(d.known, knownDigest{file: info, digest: digest})
	return digest, nil
}

func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", errdefs.FailedPreconditionf("digest of plugin %s: %w", path, err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("digest of plugin %s: %w", path, err)
	}
	return digestPrefix + hex.EncodeToString(sum.Sum(nil)), nil
}
