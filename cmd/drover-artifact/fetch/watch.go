// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fetch

import (
	"context"
	"io/fs"
	"path/filepath"

	"github.com/drover-project/drover/core/agent/artifact/wire"
)

// maxFiles is the number of files that an artifact may have. Archives have a limit
// of their own.
const maxFiles = 2_000_000

// measure returns the bytes and the number of files in a directory. Files that
// vanish while it runs are not counted.
func measure(ctx context.Context, dir string) (bytes int64, files int) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if files++; files > maxFiles || ctx.Err() != nil {
			return fs.SkipAll
		}
		if d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes, files
}

// wireBytes reports the bytes received over http or, for other sources, the bytes in
// the staging directory.
func wireBytes(overHTTP, staged int64) wire.Answer {
	if overHTTP > 0 {
		return wire.Answer{Bytes: overHTTP}
	}
	return wire.Answer{Bytes: staged}
}
