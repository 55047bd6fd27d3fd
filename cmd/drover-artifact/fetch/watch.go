// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fetch

import (
	"context"
	"io/fs"
	"path/filepath"

	"github.com/drover-project/drover/core/agent/artifact/wire"
)

// maxFiles bounds the files of any artifact; archives have a limit of their own.
const maxFiles = 2_000_000

// measure returns the bytes and files in a folder. What vanishes while it looks
// is not counted.
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

// wireBytes tells of what came over http, or, from other sources, of what lies
// in the staging folder.
func wireBytes(overHTTP, staged int64) wire.Answer {
	if overHTTP > 0 {
		return wire.Answer{Bytes: overHTTP}
	}
	return wire.Answer{Bytes: staged}
}
