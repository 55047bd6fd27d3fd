// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package artifact_test

import (
	"archive/tar"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/artifact"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestAFileLandsWhereModeAndDestinationSay(t *testing.T) {
	s := serve(t, map[string][]byte{"/dir/app.bin": []byte("app")})
	for _, c := range []struct{ dest, mode, want string }{
		{"local/", "any", "web/local/app.bin"},
		{"local/", "", "web/local/app.bin"},
		{"local/my/path", "any", "web/local/my/path/app.bin"},
		{"local/renamed", "file", "web/local/renamed"},
		{"../alloc/app", "file", "alloc/app"},
		{"/alloc/data/app", "file", "alloc/data/app"},
		{"/local/app", "file", "web/local/app"},
		{"/secrets/app", "file", "web/secrets/app"},
		{"", "any", "web/app.bin"},
	} {
		t.Run(c.mode+" "+c.dest, func(t *testing.T) {
			p := newPlace(t)
			a := &model.TaskArtifact{GetterSource: s.URL + "/dir/app.bin", GetterMode: c.mode, RelativeDest: c.dest}
			if err := p.fetcher().Fetch(t.Context(), artifact.Request{Artifact: a, TaskDir: p.task}, nil); err != nil {
				t.Fatal(err)
			}
			p.wants(c.want)
			p.wantText(c.want, "app")
		})
	}
	t.Run("absolute below the alloc", func(t *testing.T) {
		p := newPlace(t)
		p.mustFetch(&model.TaskArtifact{GetterSource: s.URL + "/dir/app.bin", GetterMode: "file", RelativeDest: filepath.Join(p.alloc, "alloc", "x")})
		p.wants("alloc/x")
	})
}

func TestADestinationOutsideOfTheTaskIsRefused(t *testing.T) {
	s := serve(t, map[string][]byte{"/f": []byte("f")})
	for _, dest := range []string{"../../x", "../other/local", "..", "../.artifact-x", "../alloc/../../x", "private/x", "../web2/x"} {
		p := newPlace(t)
		err := p.fetch(&model.TaskArtifact{GetterSource: s.URL + "/f", RelativeDest: dest})
		if !errdefs.IsInvalidArgument(err) {
			t.Errorf("destination %q: got %v, want it refused", dest, err)
		}
		p.wants()
	}
	p := newPlace(t)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(p.task, "local", "way")); err != nil {
		t.Fatal(err)
	}
	err := p.fetch(&model.TaskArtifact{GetterSource: s.URL + "/f", RelativeDest: "local/way/in"})
	if !errdefs.IsInvalidArgument(err) {
		t.Errorf("a destination through a link: got %v, want it refused", err)
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("files were written through a link of the task: %v", left)
	}
}

func TestArchivesAreUnpackedWithTheirLinksAndModes(t *testing.T) {
	body := tarOf(t, &tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o750}, regular("d/run.sh", "#!/bin/sh"),
		&tar.Header{Name: "d/again", Typeflag: tar.TypeSymlink, Linkname: "run.sh"},
		&tar.Header{Name: "up", Typeflag: tar.TypeSymlink, Linkname: "d/again"},
		&tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: "d/run.sh"})
	s := serve(t, map[string][]byte{"/a.tar": body, "/b.tar.gz": gz(t, body), "/c.bin": gz(t, body), "/e.zip": zipOf(t, map[string]string{"d/run.sh": "#!/bin/sh"})})
	for _, source := range []string{"/a.tar", "/b.tar.gz", "/c.bin?archive=tgz"} {
		p := newPlace(t)
		p.mustFetch(&model.TaskArtifact{GetterSource: s.URL + source})
		p.wants("web/local/d/again", "web/local/d/run.sh", "web/local/hard", "web/local/up")
		p.wantText("web/local/up", "#!/bin/sh")
		if info, err := os.Stat(filepath.Join(p.task, "local/d")); err != nil || info.Mode().Perm() != 0o750 {
			t.Errorf("%s: the folder has mode %v (%v), want 0750", source, info.Mode(), err)
		}
	}
	p := newPlace(t)
	p.mustFetch(&model.TaskArtifact{GetterSource: s.URL + "/e.zip"})
	p.wants("web/local/d/run.sh")
	p = newPlace(t)
	p.mustFetch(&model.TaskArtifact{GetterSource: s.URL + "/a.tar", GetterOptions: map[string]string{"archive": "false"}})
	p.wants("web/local/a.tar")
	p = newPlace(t)
	p.mustFetch(&model.TaskArtifact{GetterSource: s.URL + "/e.zip//d"}) // a folder of the archive
	p.wants("web/local/run.sh")
}

func TestChecksumsAreChecked(t *testing.T) {
	body := []byte("the real thing")
	sums := map[string]string{
		"md5":    fmt.Sprintf("%x", md5.Sum(body)),
		"sha1":   fmt.Sprintf("%x", sha1.Sum(body)),
		"sha256": fmt.Sprintf("%x", sha256.Sum256(body)),
		"sha512": fmt.Sprintf("%x", sha512.Sum512(body)),
	}
	s := serve(t, map[string][]byte{"/f": body, "/SUMS": []byte(sums["sha256"] + "  f\n"), "/BAD": []byte(strings.Repeat("0", 64) + "  f\n")})
	good := []string{sums["sha256"], "file:" + s.URL + "/SUMS"}
	bad := []string{"sha256:" + strings.Repeat("0", 64), "sha256:" + sums["md5"], "md5:zz", "crc:00", "abc", "file:ftp://x/y", "file:" + s.URL + "/BAD"}
	for kind, sum := range sums {
		good = append(good, kind+":"+sum)
	}
	for _, sum := range good {
		p := newPlace(t)
		p.mustFetch(&model.TaskArtifact{GetterSource: s.URL + "/f", GetterOptions: map[string]string{"checksum": sum}})
		p.wants("web/local/f")
	}
	for _, sum := range bad {
		p := newPlace(t)
		err := p.fetch(&model.TaskArtifact{GetterSource: s.URL + "/f", GetterOptions: map[string]string{"checksum": sum}})
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("checksum %q: got %v, want it refused for good", sum, err)
		}
		p.wants()
	}
}

func TestTLSIsVerifiedUnlessTheArtifactSaysNot(t *testing.T) {
	s := httptest.NewTLSServer(contents(map[string][]byte{"/f": []byte("f")}))
	defer s.Close()
	p := newPlace(t)
	if err := p.fetch(&model.TaskArtifact{GetterSource: s.URL + "/f"}); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server with an unknown certificate: got %v", err)
	}
	p.wants()
	p.mustFetch(&model.TaskArtifact{GetterSource: s.URL + "/f", GetterInsecure: true})
	p.wants("web/local/f")
}

func TestHeadersGoToTheSourceAndNotWhereItRedirects(t *testing.T) {
	var leaked atomic.Value
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked.Store(r.Header.Get("X-Token"))
	}))
	defer other.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != "s3cret" {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, other.URL+"/f", http.StatusFound)
	}))
	defer s.Close()
	p := newPlace(t)
	p.mustFetch(&model.TaskArtifact{GetterSource: s.URL + "/f", GetterHeaders: map[string]string{"X-Token": "s3cret"}})
	if got := leaked.Load(); got != "" {
		t.Errorf("the header went to another host: %q", got)
	}
}

func TestAnArtifactMergesIntoWhatIsThere(t *testing.T) {
	s := serve(t, map[string][]byte{"/a.tar": tarOf(t, regular("conf/new", "new"), regular("conf/old", "fresh")), "/conf": []byte("a file")})
	p := newPlace(t)
	old := filepath.Join(p.task, "local", "conf")
	if err := os.Mkdir(old, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"old": "stale", "mine": "kept"} {
		if err := os.WriteFile(filepath.Join(old, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.mustFetch(&model.TaskArtifact{GetterSource: s.URL + "/a.tar"})
	p.wants("web/local/conf/mine", "web/local/conf/new", "web/local/conf/old")
	p.wantText("web/local/conf/old", "fresh")
	err := p.fetch(&model.TaskArtifact{GetterSource: s.URL + "/conf"})
	if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "already") {
		t.Errorf("a file over a folder: got %v, want it refused", err)
	}
	p.wantText("web/local/conf/mine", "kept")
}

func TestFailuresOfTheSourceAreRetryableAndLeaveNothing(t *testing.T) {
	s := serve(t, nil)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	short := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("only this"))
	}))
	defer short.Close()
	for _, source := range []string{s.URL + "/missing", gone.URL + "/f", short.URL + "/f", "http://no-such-host.invalid/f"} {
		p := newPlace(t)
		if err := p.fetch(&model.TaskArtifact{GetterSource: source, RelativeDest: "local/new/path"}); !errdefs.IsUnavailable(err) {
			t.Errorf("%s: got %v (%s), want an unavailable source", source, err, errdefs.ClassOf(err))
		}
		p.wants()
		if _, err := os.Stat(filepath.Join(p.task, "local/new")); err == nil {
			t.Errorf("%s: a failed fetch has left folders", source)
		}
	}
}

func TestBadSourcesAreRefusedForGood(t *testing.T) {
	s := serve(t, map[string][]byte{"/f": []byte("f"), "/dir/": []byte("x"), "/empty.tar": tarOf(t), "/no.zip": []byte("no zip"), "/x.gz": gz(t, []byte("x")), "/d.zip": zipOf(t, map[string]string{"d/f": "f"})})
	for _, a := range []*model.TaskArtifact{
		{GetterSource: ""},
		{GetterSource: "ftp://host/f"},
		{GetterSource: "relative/path"},
		{GetterSource: "/etc/passwd"},
		{GetterSource: "file:///etc/passwd"},
		{GetterSource: "git::" + s.URL + "/f//../../x"},
		{GetterSource: s.URL + "/f?filename=../x"},
		{GetterSource: s.URL + "/f?archive=rar"},
		{GetterSource: s.URL + "/f", GetterMode: "all"},
		{GetterSource: s.URL + "/dir/", GetterMode: "dir"},
		{GetterSource: s.URL + "/empty.tar"},
		{GetterSource: s.URL + "/no.zip"},
		{GetterSource: s.URL + "/x.gz"},
		{GetterSource: s.URL + "/d.zip//d/f"}, // a file where a folder can be selected
		{GetterSource: "http://[::1"},
		{GetterSource: s.URL + "/f\nHost: x"},
		{GetterSource: "git::" + s.URL + "/f", GetterMode: "file"},
		{GetterSource: "nothing::" + s.URL},
		{GetterSource: s.URL + "/f", GetterOptions: map[string]string{"x": strings.Repeat("y", 1<<20)}},
	} {
		p := newPlace(t)
		if err := p.fetch(a); !errdefs.IsInvalidArgument(err) {
			t.Errorf("source %.60q: got %v (%s), want it refused for good", a.GetterSource, err, errdefs.ClassOf(err))
		}
		p.wants()
	}
}

func TestCredentialsNeverShowInErrors(t *testing.T) {
	s := serve(t, nil)
	host := strings.TrimPrefix(s.URL, "http://")
	p := newPlace(t)
	err := p.fetch(&model.TaskArtifact{
		GetterSource: "http://user:hunter22@" + host + "/missing?token=abc%2Fdef123", GetterHeaders: map[string]string{"X-Key": "headersecret"},
		GetterOptions: map[string]string{"sshkey": "a2V5a2V5"},
	})
	if err == nil {
		t.Fatal("a missing file was fetched")
	}
	for _, secret := range []string{"hunter22", "abc/def123", "abc%2Fdef123", "headersecret", "a2V5a2V5"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error tells %q: %v", secret, err)
		}
	}
	for source, want := range map[string]string{
		"git::https://u:p@host/r?ref=v1&sshkey=abc": "git::https://redacted@host/r?ref=v1&sshkey=redacted",
		"git@host:r?sshkey=abc":                     "redacted@host:r",
		"https://host/f?checksum=md5:00":            "https://host/f?checksum=md5%3A00",
	} {
		if got := artifact.Redact(source); got != want {
			t.Errorf("Redact(%q) is %q, want %q", source, got, want)
		}
	}
}

// BenchmarkFetch fetches 100 MB over http: process, sandbox, inspection and move
// included.
func BenchmarkFetch(b *testing.B) {
	const size = 100 << 20
	body := make([]byte, size)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	defer s.Close()
	dir := b.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "web", "local"), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		b.Fatal(err)
	}
	cfg := artifact.DefaultConfig()
	cfg.Binary = child
	f := artifact.New(cfg, hclog.NewNullLogger())
	b.SetBytes(size)
	for b.Loop() {
		req := artifact.Request{Artifact: &model.TaskArtifact{GetterSource: s.URL + "/f", RelativeDest: "local/"}, TaskDir: filepath.Join(dir, "web")}
		if err := f.Fetch(b.Context(), req, nil); err != nil {
			b.Fatal(err)
		}
	}
}
