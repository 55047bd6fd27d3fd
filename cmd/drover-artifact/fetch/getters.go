// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fetch

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	getter "github.com/hashicorp/go-getter"

	"github.com/drover-project/drover/cmd/drover-artifact/unpack"
	"github.com/drover-project/drover/sdk/errdefs"
)

// getters returns go-getter's getters, bounded by the limits of the request. The
// header X-Terraform-Get is ignored: a server must not choose another protocol.
func (j *job) getters() map[string]getter.Getter {
	l := j.req.Limits
	web := &getter.HttpGetter{
		Netrc: true, DoNotCheckHeadFirst: true, XTerraformGetDisabled: true, ReadTimeout: l.HTTPReadTimeout,
		Client: j.httpClient(), Header: http.Header{},
	}
	for k, v := range j.req.Headers {
		web.Header.Set(k, v)
	}
	return map[string]getter.Getter{
		"http": web, "https": web, "git": &getter.GitGetter{Timeout: l.GitTimeout}, "hg": &getter.HgGetter{Timeout: l.HgTimeout},
		"s3": &getter.S3Getter{Timeout: l.S3Timeout}, "gcs": &getter.GCSGetter{Timeout: l.GCSTimeout}, "file": fileGetter{},
	}
}

func (j *job) httpClient() *http.Client {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: j.guard.dial, TLSHandshakeTimeout: 30 * time.Second,
		ResponseHeaderTimeout: 5 * time.Minute, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 256 << 10,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: j.req.Insecure}, //nolint:gosec // the job asks for it
	}
	return &http.Client{Transport: &metered{next: t, job: j}, CheckRedirect: j.guard.followTo(j.req.Headers)}
}

// meter counts the bytes received over http.
type meter struct{ bytes atomic.Int64 }

// metered is a transport that counts and limits the bytes of response bodies.
type metered struct {
	next http.RoundTripper
	job  *job
}

// RoundTrip checks the address and sends the request.
func (m *metered) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := m.job.guard.redirect(r.URL); err != nil { // with a proxy, the guard does not see the dialed address
		return nil, err
	}
	resp, err := m.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	limit := m.job.req.Limits.HTTPMaxBytes
	if limit > 0 && resp.ContentLength > limit {
		_ = resp.Body.Close()
		return nil, tooLarge(limit)
	}
	resp.Body = &meteredBody{ReadCloser: resp.Body, meter: &m.job.meter, limit: limit, left: limit}
	return resp, nil
}

func tooLarge(limit int64) error {
	return errdefs.InvalidArgumentf("the answer is larger than %d bytes; raise artifact.http_max_size of the agent", limit)
}

type meteredBody struct {
	io.ReadCloser
	meter       *meter
	limit, left int64
}

// Read counts the bytes and fails once the limit is exceeded.
func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.meter.bytes.Add(int64(n))
	if b.limit > 0 {
		if b.left -= int64(n); b.left < 0 {
			return n, tooLarge(b.limit)
		}
	}
	return n, err
}

// fileGetter copies files and directories of this machine. checkFile has already
// allowed the path.
type fileGetter struct{}

// SetClient implements getter.Getter.
func (fileGetter) SetClient(*getter.Client) {}

// ClientMode implements getter.Getter.
func (fileGetter) ClientMode(u *url.URL) (getter.ClientMode, error) {
	info, err := os.Stat(u.Path)
	if err != nil {
		return 0, fmt.Errorf("stat the source: %w", err)
	}
	if info.IsDir() {
		return getter.ClientModeDir, nil
	}
	return getter.ClientModeFile, nil
}

// Get implements getter.Getter.
func (fileGetter) Get(dst string, u *url.URL) error {
	if err := os.CopyFS(dst, os.DirFS(u.Path)); err != nil {
		return fmt.Errorf("copy the folder: %w", err)
	}
	return nil
}

// GetFile implements getter.Getter.
func (fileGetter) GetFile(dst string, u *url.URL) error {
	src, err := os.Open(u.Path)
	if err != nil {
		return fmt.Errorf("open the source: %w", err)
	}
	defer func() { _ = src.Close() }()
	info, err := src.Stat()
	if err != nil {
		return fmt.Errorf("stat the source: %w", err)
	}
	if !info.Mode().IsRegular() {
		return errdefs.InvalidArgumentf("the source is not a regular file")
	}
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm()|0o600)
	if err != nil {
		return fmt.Errorf("make the file: %w", err)
	}
	_, err = io.Copy(out, src)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("copy the file: %w", err)
	}
	return nil
}

// archive extracts one kind of archive. It replaces go-getter's decompressors, which
// turn links and devices of a tar into empty files and truncate large files without
// an error.
type archive struct {
	ctx    context.Context //nolint:containedctx // go-getter's interface has no place for it
	kind   string
	limits unpack.Limits
}

// Decompress implements getter.Decompressor.
func (a *archive) Decompress(dst, src string, dir bool, _ os.FileMode) error {
	return unpack.Archive(a.ctx, a.kind, src, dst, dir, a.limits)
}

func (j *job) decompressors(ctx context.Context) map[string]getter.Decompressor {
	out := map[string]getter.Decompressor{}
	for _, kind := range unpack.Kinds() {
		out[kind] = &archive{ctx: ctx, kind: kind, limits: unpack.Limits{MaxBytes: j.req.Limits.UnpackMaxBytes, MaxFiles: j.req.Limits.UnpackMaxFiles}}
	}
	return out
}

// watch reports the progress, and cancels the fetch when the staging directory
// exceeds the limits: not every getter enforces a limit itself.
func (j *job) watch(ctx context.Context, cancel context.CancelCauseFunc, out *answers) {
	l := j.req.Limits
	var last int64
	pause := 500 * time.Millisecond
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		began := time.Now()
		size, files := measure(ctx, j.req.Staging)
		pause = max(500*time.Millisecond, 20*time.Since(began)) // a large tree is measured less often
		if l.HTTPMaxBytes > 0 && l.UnpackMaxBytes > 0 && size > l.HTTPMaxBytes+l.UnpackMaxBytes {
			cancel(errdefs.InvalidArgumentf("the artifact has more than %d bytes; raise artifact.http_max_size or decompression_size_limit of the agent", l.HTTPMaxBytes+l.UnpackMaxBytes))
			return
		}
		if files > maxFiles {
			cancel(errdefs.InvalidArgumentf("the artifact has more than %d files", maxFiles))
			return
		}
		if got := max(j.meter.bytes.Load(), last); got > 0 || size > 0 {
			last = got
			out.send(wireBytes(got, size))
		}
	}
}
