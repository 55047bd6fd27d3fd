// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package artifact_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/artifact"
	"github.com/drover-project/drover/core/model"
)

// child is the real drover-artifact, built for these tests.
var child string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "drover-artifact-test")
	if err == nil {
		err = buildChild(dir)
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, "build drover-artifact:", err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func buildChild(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil { // the child runs as nobody
		return err
	}
	child = filepath.Join(dir, "drover-artifact")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", child, "../../../cmd/drover-artifact")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// place is an alloc with one task.
type place struct {
	t     *testing.T
	alloc string
	task  string
	cfg   artifact.Config
}

func newPlace(t *testing.T) *place {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, alloc: filepath.Join(dir, "alloc1"), cfg: artifact.DefaultConfig()}
	p.task = filepath.Join(p.alloc, "web")
	for _, d := range []string{p.alloc, p.task, filepath.Join(p.task, "local"), filepath.Join(p.alloc, "alloc")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.cfg.Binary = child
	return p
}

func (p *place) fetcher() *artifact.Fetcher {
	return artifact.New(p.cfg, hclog.New(&hclog.LoggerOptions{Output: p.t.Output(), Level: hclog.Debug}))
}

// fetch fetches with a deadline that only a stuck fetch reaches.
func (p *place) fetch(a *model.TaskArtifact) error {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Minute)
	defer cancel()
	if a.RelativeDest == "" {
		a.RelativeDest = "local/"
	}
	return p.fetcher().Fetch(ctx, artifact.Request{Artifact: a, TaskDir: p.task}, nil)
}

func (p *place) mustFetch(a *model.TaskArtifact) {
	p.t.Helper()
	if err := p.fetch(a); err != nil {
		p.t.Fatal(err)
	}
}

// wants fails unless the alloc holds exactly these files, written as paths below
// it.
func (p *place) wants(files ...string) {
	p.t.Helper()
	var got []string
	err := filepath.WalkDir(p.alloc, func(path string, d fs.DirEntry, err error) error {
		if err == nil && (!d.IsDir() || strings.HasPrefix(d.Name(), ".artifact-")) {
			rel, _ := filepath.Rel(p.alloc, path)
			got = append(got, rel)
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	slices.Sort(files)
	if !slices.Equal(got, files) {
		p.t.Errorf("the alloc has the files %q, want %q", got, files)
	}
}

func (p *place) wantText(name, text string) {
	p.t.Helper()
	got, err := os.ReadFile(filepath.Join(p.alloc, name))
	if err != nil {
		p.t.Fatal(err)
	}
	if string(got) != text {
		p.t.Errorf("%s holds %q, want %q", name, got, text)
	}
}

// serve serves contents by path.
func serve(t *testing.T, files map[string][]byte) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(contents(files))
	t.Cleanup(s.Close)
	return s
}

func contents(files map[string][]byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(body)
	})
}

func tarOf(t *testing.T, headers ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		body := h.PAXRecords["body"]
		h.PAXRecords = nil
		h.Size = int64(len(body))
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// regular is a file of a tar.
func regular(name, body string) *tar.Header {
	return &tar.Header{Name: name, Typeflag: tar.TypeReg, PAXRecords: map[string]string{"body": body}}
}

func gz(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zipOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, body := range files {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
