// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginfiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/drover-project/drover/sdk/errdefs"
)

// PartSize is the number of bytes in each part of a file, except the last.
const PartSize = 1 << 20

// Part returns the part of a file that begins at offset, which is empty at the end of the
// file. NotFound: the file does not exist.
func (s *Store) Part(digest string, offset int64) ([]byte, error) {
	if offset < 0 {
		return nil, errdefs.InvalidArgumentf("offset %d of a plugin file is negative", offset)
	}
	path, err := s.path(digest)
	if err != nil {
		return nil, err
	}
	f, err := open(path, digest)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	part := make([]byte, PartSize)
	n, err := f.ReadAt(part, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the plugin file %s: %w", digest, err)
	}
	return part[:n], nil
}

// Source reads parts of the files of another server, as Part does.
type Source func(ctx context.Context, digest string, offset int64) ([]byte, error)

// Copy copies a file from another server: it asks the sources in their order until one has
// the file. Only one file is copied at a time. NotFound: none of them has it.
func (s *Store) Copy(ctx context.Context, digest string, sources []Source) error {
	select {
	case s.copying <- struct{}{}:
		defer func() { <-s.copying }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if _, err := s.Stat(digest); !errdefs.IsNotFound(err) {
		return err // another call has copied it
	}
	var failed error
	for _, source := range sources {
		_, err := s.Put(digest, &parts{ctx: ctx, source: source, digest: digest})
		switch {
		case err == nil:
			return nil
		case !errdefs.IsNotFound(err):
			failed = errors.Join(failed, err)
		}
	}
	if failed != nil {
		return failed
	}
	return errdefs.NotFoundf("no server that answers has the plugin file %s; upload it again", digest)
}

// parts reads a file of another server from its begin to its end.
type parts struct {
	ctx    context.Context
	source Source
	digest string
	offset int64
	rest   []byte
}

// Read implements io.Reader.
func (p *parts) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		part, err := p.source(p.ctx, p.digest, p.offset)
		if err != nil {
			return 0, err
		}
		if len(part) == 0 {
			return 0, io.EOF
		}
		p.rest, p.offset = part, p.offset+int64(len(part))
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// open opens a file by its path.
func open(path, digest string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, missing(digest)
	} else if err != nil {
		return nil, fmt.Errorf("open the plugin file %s: %w", digest, err)
	}
	return f, nil
}
