// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// maxInput is the number of bytes of a file that a command reads or downloads.
const maxInput = 16 << 20

// downloadWithin is the time for a download; tests shorten it.
var downloadWithin = time.Minute

// readUpTo reads all of a source, and fails if it has more than limit bytes: part of a
// file would have another meaning than the file.
func readUpTo(limit int, from io.Reader, name string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(from, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, err)
	}
	if len(b) > limit {
		return nil, errdefs.InvalidArgumentf("%s is longer than %d MiB, which is the limit", name, limit>>20)
	}
	return b, nil
}

// readFile reads the file at path; "-" is standard input.
func readFile(path string, stdin io.Reader) ([]byte, error) {
	if path == "-" {
		return readUpTo(maxInput, stdin, "standard input")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the file: %w", err)
	}
	defer f.Close()
	return readUpTo(maxInput, f, path)
}

// download reads a file from a web server.
func download(ctx context.Context, address string) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("cannot download: %w", err)
	}
	name := u.Redacted() // messages show no password
	ctx, cancel := context.WithTimeoutCause(ctx, downloadWithin, errdefs.Unavailablef("it took longer than %s", downloadWithin))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot download %s: %w", name, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("cannot download %s: %w", name, cause(ctx, err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errdefs.Unavailablef("cannot download %s: the server answered %s", name, resp.Status)
	}
	b, err := readUpTo(maxInput, resp.Body, name)
	return b, cause(ctx, err)
}

// cause is the reason for which ctx ended, if it has, and otherwise err.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
