// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

func checkSource(source, digest string) error {
	if source == "" {
		return errdefs.InvalidArgumentf("the release has no source: give an http or https URL, or an absolute path on the node")
	}
	if filepath.IsAbs(source) {
		return nil
	}
	u, err := url.Parse(source)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return errdefs.InvalidArgumentf("the source %q cannot be used: it must be an http or https URL, or an absolute path on the node", source)
	}
	if u.Scheme == "http" && digest == "" {
		return errdefs.InvalidArgumentf("the source %q is plain http, which anyone on the way can change: give the file's digest, or use https", source)
	}
	return nil
}

// fetch stores a release's file at a temporary path and returns its digest, which must
// match the release's if that has one.
func (v *Versions) fetch(ctx context.Context, r Release, body io.Reader) (path, digest string, err error) {
	ctx, cancel := context.WithTimeout(ctx, v.cfg.FetchTimeout)
	defer cancel()
	v.cfg.Works.Step(r.Name, StepFetching, r.Size)
	if body == nil {
		in, size, err := open(ctx, r)
		if err != nil {
			return "", "", err
		}
		defer in.Close()
		v.cfg.Works.Step(r.Name, StepFetching, size)
		body = in
	}
	body = io.TeeReader(body, written(func(n int64) { v.cfg.Works.add(r.Name, n) }))
	if err := os.MkdirAll(v.cfg.Dir, 0o700); err != nil {
		return "", "", diskError(err, "make the directory of plugin versions")
	}
	out, err := os.CreateTemp(v.cfg.Dir, ".fetch-*")
	if err != nil {
		return "", "", diskError(err, "fetch the plugin")
	}
	digest, err = v.receive(ctx, out, body)
	if closed := out.Close(); err == nil && closed != nil {
		err = diskError(closed, "fetch the plugin")
	}
	if err == nil && r.Digest != "" && digest != r.Digest {
		err = errdefs.FailedPreconditionf("plugin %q: the fetched file has the digest %s, and %s is wanted: it is another version, was damaged on the way, or is forged; nothing was changed", r.Name, digest, r.Digest)
	}
	if err != nil {
		_ = os.Remove(out.Name()) // the error before it counts
		return "", "", err
	}
	return out.Name(), digest, nil
}

// receive writes the body to a file and returns its digest.
func (v *Versions) receive(ctx context.Context, out *os.File, body io.Reader) (string, error) {
	sum := sha256.New()
	in := &source{Reader: bounded(ctx, body)}
	n, err := io.Copy(io.MultiWriter(out, sum), io.LimitReader(in, v.cfg.MaxSize+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return "", errdefs.DeadlineExceededf("fetch the plugin: it ended early: %w", ctx.Err())
	case in.failed != nil:
		class := errdefs.ClassOf(in.failed)
		if class == errdefs.Internal {
			class = errdefs.Unavailable // a broken connection says nothing about the plugin
		}
		return "", errdefs.New(class, fmt.Errorf("fetch the plugin: it was cut off: %w", in.failed))
	case err != nil:
		return "", diskError(err, "fetch the plugin")
	case n > v.cfg.MaxSize:
		return "", errdefs.ResourceExhaustedf("fetch the plugin: it has more than %d bytes, the most that this node takes", v.cfg.MaxSize)
	case n == 0:
		return "", errdefs.InvalidArgumentf("fetch the plugin: its source is empty")
	}
	err = out.Chmod(0o755)
	if err == nil {
		err = out.Sync()
	}
	if err != nil {
		return "", diskError(err, "fetch the plugin")
	}
	return digestPrefix + hex.EncodeToString(sum.Sum(nil)), nil
}

// source records why reading failed.
type source struct {
	io.Reader
	failed error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed = err
	}
	return n, err
}

// bounded returns a reader that ends with ctx, even while body blocks. The goroutine
// that reads body ends when its current Read returns.
func bounded(ctx context.Context, body io.Reader) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, body)
		_ = w.CloseWithError(err) // nil is the end of the file; it cannot fail
	}()
	context.AfterFunc(ctx, func() { _ = r.CloseWithError(ctx.Err()) })
	return r
}

// open opens a release's source and returns its size; 0 if that is not known.
func open(ctx context.Context, r Release) (in io.ReadCloser, size int64, err error) {
	if filepath.IsAbs(r.Source) {
		// Do not block if it is a FIFO.
		f, err := os.OpenFile(r.Source, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, 0, errdefs.NotFoundf("plugin %q: its source cannot be read on this node: %w", r.Name, err)
		}
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			_ = f.Close() // nothing was written
			return nil, 0, errdefs.InvalidArgumentf("plugin %q: its source %s is not a file", r.Name, r.Source)
		}
		return f, info.Size(), nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Source, nil)
	if err != nil {
		return nil, 0, errdefs.InvalidArgumentf("plugin %q: its source cannot be used: %w", r.Name, err)
	}
	resp, err := fetcher(r.Digest != "").Do(req)
	if err != nil {
		return nil, 0, errdefs.Unavailablef("fetch plugin %q: %w", r.Name, err)
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close() // nothing was read
		return nil, 0, errdefs.Unavailablef("fetch plugin %q: %s answered %s", r.Name, r.Source, resp.Status)
	}
	return resp.Body, max(resp.ContentLength, 0), nil
}

// fetcher returns the http client. It follows a redirect to plain http only if the
// release has a digest.
func fetcher(hasDigest bool) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = time.Minute
	transport.DisableKeepAlives = true
	return &http.Client{Transport: transport, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) >= 10 {
			return fmt.Errorf("stopped after %d redirects", len(via))
		}
		if req.URL.Scheme != "https" && !hasDigest {
			return fmt.Errorf("it redirects to plain http, which anyone on the way can change: give the file's digest")
		}
		return nil
	}}
}
