// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package artifact_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestBombsEndAtTheirLimits(t *testing.T) {
	big := strings.Repeat("0", 4<<20)
	many := make([]*tar.Header, 0, 300)
	for i := range 300 {
		many = append(many, regular(fmt.Sprintf("f%d", i), "x"))
	}
	names := map[string]string{}
	for i := range 300 {
		names[fmt.Sprintf("f%d", i)] = "x"
	}
	s := serve(t, map[string][]byte{
		"/size.zip": zipOf(t, map[string]string{"big": big}), "/size.tar.gz": gz(t, tarOf(t, regular("big", big))), "/size.gz": gz(t, []byte(big)),
		"/lies.zip": lyingZip(t, big), "/count.zip": zipOf(t, names), "/count.tar.gz": gz(t, tarOf(t, many...)),
		"/body": []byte(big),
	})
	for _, c := range []struct{ path, mode, says string }{
		{"/size.zip", "any", "decompression_size_limit"},
		{"/size.tar.gz", "any", "decompression_size_limit"},
		{"/size.gz", "file", "decompression_size_limit"},
		{"/lies.zip", "any", ""},
		{"/count.zip", "any", "decompression_file_count_limit"},
		{"/count.tar.gz", "any", "decompression_file_count_limit"},
		{"/body", "any", "http_max_size"},
	} {
		p := newPlace(t)
		p.cfg.Limits.HTTPMaxBytes, p.cfg.Limits.UnpackMaxBytes, p.cfg.Limits.UnpackMaxFiles = 1<<20, 1<<20, 200
		err := p.fetch(&model.TaskArtifact{GetterSource: s.URL + c.path, GetterMode: c.mode, RelativeDest: "local/x"})
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want an error for good that names %q", c.path, err, c.says)
		}
		p.wants()
	}
}

// lyingZip is a zip whose entry claims to be small.
func lyingZip(t *testing.T, body string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.CreateRaw(&zip.FileHeader{Name: "small", Method: zip.Deflate, CompressedSize64: 1, UncompressedSize64: 10})
	if err != nil {
		t.Fatal(err)
	}
	packed := zipOf(t, map[string]string{"small": body})
	r, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := r.File[0].OpenRaw()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(f, raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestEntriesThatLeaveTheArchiveAreRefused(t *testing.T) {
	link := func(name, target string) *tar.Header {
		return &tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
	}
	for name, archive := range map[string][]byte{
		"dots":                 tarOf(t, regular("../x", "x")),
		"dots within":          tarOf(t, regular("a/../../x", "x")),
		"absolute link":        tarOf(t, link("x", "/etc/passwd")),
		"link up":              tarOf(t, link("x", "../../../etc/passwd")),
		"link up from a dir":   tarOf(t, link("a/b", "../../x")),
		"link through a link":  tarOf(t, link("d", "."), link("x", "d/../../y")),
		"hidden way out":       tarOf(t, link("d", "."), link("x", "d/../y")),
		"circle":               tarOf(t, link("a", "b"), link("b", "a")),
		"hard link out":        tarOf(t, &tar.Header{Name: "x", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}),
		"hard link up":         tarOf(t, &tar.Header{Name: "x", Typeflag: tar.TypeLink, Linkname: "../../x"}),
		"device":               tarOf(t, &tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}),
		"block device":         tarOf(t, &tar.Header{Name: "sda", Typeflag: tar.TypeBlock, Devmajor: 8}),
		"fifo":                 tarOf(t, &tar.Header{Name: "pipe", Typeflag: tar.TypeFifo}),
		"zip with dots":        zipOf(t, map[string]string{"../x": "x"}),
		"zip with backslashes": zipOf(t, map[string]string{`..\x`: "x"}),
	} {
		kind := ".tar"
		if strings.HasPrefix(name, "zip") {
			kind = ".zip"
		}
		s := serve(t, map[string][]byte{"/a" + kind: archive})
		p := newPlace(t)
		err := p.fetch(&model.TaskArtifact{GetterSource: s.URL + "/a" + kind})
		if !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: got %v, want it refused for good", name, err)
		}
		p.wants()
	}
}

func TestSetuidBitsOfAnArchiveAreLost(t *testing.T) {
	h := regular("root", "x")
	h.Mode = 0o6755
	s := serve(t, map[string][]byte{"/a.tar": tarOf(t, h, &tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o7777})})
	p := newPlace(t)
	p.mustFetch(&model.TaskArtifact{GetterSource: s.URL + "/a.tar"})
	for _, name := range []string{"root", "d"} {
		info, err := os.Stat(filepath.Join(p.task, "local", name))
		if err != nil || info.Mode()&(os.ModeSetuid|os.ModeSetgid|os.ModeSticky) != 0 {
			t.Errorf("%s has mode %v (%v), want only rwx", name, info.Mode(), err)
		}
	}
}

func TestEndlessAndSlowBodiesEnd(t *testing.T) {
	endless := func(w http.ResponseWriter, r *http.Request) {
		block := bytes.Repeat([]byte("x"), 64<<10)
		for r.Context().Err() == nil {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	silent := func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("a little"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	mute := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		class errdefs.Class
		says  string
	}{
		"endless": {endless, errdefs.InvalidArgument, "http_max_size"},
		"silent":  {silent, errdefs.Unavailable, "timeout"},
		"mute":    {mute, errdefs.Unavailable, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(c.serve)
			defer s.Close()
			p := newPlace(t)
			p.cfg.Limits.HTTPMaxBytes = 8 << 20
			if c.class == errdefs.Unavailable {
				p.cfg.Limits.HTTPReadTimeout = 300 * time.Millisecond
			}
			err := p.fetch(&model.TaskArtifact{GetterSource: s.URL + "/f"})
			if errdefs.ClassOf(err) != c.class || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v (%s), want class %q and %q", err, errdefs.ClassOf(err), c.class, c.says)
			}
			p.wants()
		})
	}
}

func TestRedirectsToTheMachinesOwnAddressesAreRefused(t *testing.T) {
	var to atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, to.Load().(string), http.StatusFound)
	}))
	defer s.Close()
	for _, target := range []string{"http://169.254.169.254/latest/meta-data", "http://[fe80::1]/x", "http://[::ffff:169.254.169.254]/x", "http://[fd00:ec2::254]/x", "ftp://host/x", s.URL + "/again"} {
		to.Store(target)
		p := newPlace(t)
		if err := p.fetch(&model.TaskArtifact{GetterSource: s.URL + "/f"}); !errdefs.IsInvalidArgument(err) {
			t.Errorf("a redirect to %s: got %v, want it refused for good", target, err)
		}
		p.wants()
	}
}

// A proxy answers for a host that is not of this machine's networks.
func TestRedirectsOfAPublicHostToLocalOnesAreRefused(t *testing.T) {
	var reached atomic.Bool
	local := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	defer local.Close()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(local.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{local.URL, "http://localhost:" + port, "http://10.0.0.1", "http://192.168.1.1", "http://[::1]:" + port, "http://100.64.0.1", "http://0.0.0.0:" + port} {
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, target+"/f", http.StatusFound)
		}))
		t.Setenv("HTTP_PROXY", proxy.URL)
		p := newPlace(t)
		p.cfg.Environment = []string{"HTTP_PROXY"}
		if err := p.fetch(&model.TaskArtifact{GetterSource: "http://public.example/f"}); !errdefs.IsInvalidArgument(err) {
			t.Errorf("a redirect to %s: got %v, want it refused for good", target, err)
		}
		p.wants()
		proxy.Close()
	}
	if reached.Load() {
		t.Error("a public host has led the node to a server of its own")
	}
}
