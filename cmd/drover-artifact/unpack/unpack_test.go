// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package unpack_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/drover-project/drover/cmd/drover-artifact/unpack"
	"github.com/drover-project/drover/sdk/errdefs"
)

// helloBz2 is a tar, compressed with bzip2, of a file "f" with the text "hello".
const helloBz2 = "QlpoOTFBWSZTWaA3bAMAAG37gMmAAAJAAGcAAADjRJ4ACAggAFRGqMAABpoJIk0YmQGQfcSHQg7yQhEL10LUjmgQwMVezIgwjdwX6rQ+qtgPeE4ZGiJEAEXhdyRThQkKA3bAMA=="

func helloTar(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "f", Mode: 0o644, Size: 5, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// packed compresses raw in a format.
func packed(t *testing.T, kind string, raw []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch kind {
	case "gz":
		w = gzip.NewWriter(&b)
	case "xz":
		w, err = xz.NewWriter(&b)
	case "zst":
		w, err = zstd.NewWriter(&b)
	default:
		return raw
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpacked extracts an archive and returns the directory with the files.
func unpacked(t testing.TB, kind string, archive []byte, l unpack.Limits, single bool) (string, error) {
	t.Helper()
	dir := t.TempDir()
	src := filepath.Join(dir, "archive")
	if err := os.WriteFile(src, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	dst := out
	if single {
		dst = filepath.Join(out, "f")
	}
	return out, unpack.Archive(context.Background(), kind, src, dst, !single, l)
}

func TestEveryKindOfArchiveIsUnpacked(t *testing.T) {
	raw := helloTar(t)
	bz2, err := base64.StdEncoding.DecodeString(helloBz2)
	if err != nil {
		t.Fatal(err)
	}
	archives := map[string][]byte{"tar": raw, "tar.bz2": bz2, "tbz2": bz2}
	for _, c := range []string{"gz", "xz", "zst"} {
		archives["tar."+c] = packed(t, c, raw)
	}
	archives["tgz"], archives["txz"], archives["tzst"] = archives["tar.gz"], archives["tar.xz"], archives["tar.zst"]
	for kind, archive := range archives {
		out, err := unpacked(t, kind, archive, unpack.Limits{}, false)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if got, err := os.ReadFile(filepath.Join(out, "f")); err != nil || string(got) != "hello" {
			t.Errorf("%s: got %q, %v", kind, got, err)
		}
		if _, err := unpacked(t, kind, archive[:len(archive)/2], unpack.Limits{}, false); err == nil && kind != "tar" {
			t.Errorf("%s: half an archive was unpacked without an error", kind)
		}
		if _, err := unpacked(t, kind, archive, unpack.Limits{MaxBytes: 4}, false); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: five bytes under a limit of four: got %v", kind, err)
		}
		if _, err = unpacked(t, kind, archive, unpack.Limits{MaxBytes: 5, MaxFiles: 1}, true); err != nil {
			t.Errorf("%s to one file: %v", kind, err)
		}
	}
	for _, kind := range []string{"gz", "xz", "zst"} {
		body := packed(t, kind, []byte("hello"))
		if _, err := unpacked(t, kind, body, unpack.Limits{}, false); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s to a folder: got %v, want it refused", kind, err)
		}
		out, err := unpacked(t, kind, body, unpack.Limits{MaxBytes: 5}, true)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if got, _ := os.ReadFile(filepath.Join(out, "f")); string(got) != "hello" {
			t.Errorf("%s: got %q", kind, got)
		}
		if _, err := unpacked(t, kind, body, unpack.Limits{MaxBytes: 4}, true); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s over its limit: got %v", kind, err)
		}
	}
}

func TestAZipKeepsLinksAndRefusesThoseThatLeave(t *testing.T) {
	build := func(target string) []byte {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		h := &zip.FileHeader{Name: "l"}
		h.SetMode(0o777 | fs.ModeSymlink)
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, target); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	out, err := unpacked(t, "zip", build("f"), unpack.Limits{}, false)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.Readlink(filepath.Join(out, "l")); err != nil || got != "f" {
		t.Errorf("the link is %q, %v", got, err)
	}
	for _, target := range []string{"/etc/passwd", "../x", "a/../../x", "", strings.Repeat("x", 5000)} {
		if _, err := unpacked(t, "zip", build(target), unpack.Limits{}, false); !errdefs.IsInvalidArgument(err) {
			t.Errorf("a link to %.20q: got %v, want it refused", target, err)
		}
	}
}

// FuzzUnpack checks that no archive writes outside the target directory.
func FuzzUnpack(f *testing.F) {
	f.Add(helloTar(f), "tar")
	f.Add([]byte("PK\x05\x06"+strings.Repeat("\x00", 18)), "zip")
	f.Add([]byte{0x1f, 0x8b}, "tar.gz")
	f.Fuzz(func(t *testing.T, archive []byte, kind string) {
		switch kind {
		case "tar", "zip", "tar.gz", "tar.xz", "tar.zst", "tar.bz2":
		default:
			return
		}
		out, _ := unpacked(t, kind, archive, unpack.Limits{MaxBytes: 1 << 20, MaxFiles: 100}, false)
		entries, err := os.ReadDir(filepath.Dir(out))
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) > 2 {
			t.Errorf("the archive has written beside its folder: %v", entries)
		}
		var size int64
		files := 0
		_ = filepath.WalkDir(out, func(_ string, d fs.DirEntry, err error) error {
			if info, ierr := d.Info(); err == nil && ierr == nil && d.Type().IsRegular() {
				size += info.Size()
				files++
			}
			return err
		})
		if size > 1<<20 || files > 100 {
			t.Errorf("the archive has %d bytes in %d files in spite of its limits", size, files)
		}
	})
}
