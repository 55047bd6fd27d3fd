// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginfiles_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/drover-project/drover/core/pluginfiles"
	"github.com/drover-project/drover/sdk/errdefs"
)

func open(t *testing.T, dir string, maxFile, maxTotal int64) *pluginfiles.Store {
	t.Helper()
	s, err := pluginfiles.Open(dir, maxFile, maxTotal)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func put(t *testing.T, s *pluginfiles.Store, text string) {
	t.Helper()
	if f, err := s.Put(digestOf(text), strings.NewReader(text)); err != nil || f.Size != int64(len(text)) {
		t.Fatalf("put: %+v, %v", f, err)
	}
}

func entries(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestAFileComesBackAsItWasPutIn(t *testing.T) {
	dir := t.TempDir()
	put(t, open(t, dir, 100, 100), "plugin")
	s := open(t, dir, 100, 100) // the next process
	f, err := s.Open(digestOf("plugin"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || string(got) != "plugin" {
		t.Fatalf("read %q, %v", got, err)
	}
	if _, err := s.Open(digestOf("other")); !errdefs.IsNotFound(err) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestAFileThatIsThereIsNotReadAgain(t *testing.T) {
	s := open(t, t.TempDir(), 100, 6)
	put(t, s, "plugin")
	if _, err := s.Put(digestOf("plugin"), iotest.ErrReader(io.ErrUnexpectedEOF)); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsNotWhatItsDigestSaysIsRefusedAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 100, 100)
	if _, err := s.Put(digestOf("plugin"), strings.NewReader("plug-in")); !errdefs.IsInvalidArgument(err) {
		t.Errorf("another file: %v", err)
	}
	if _, err := s.Put(digestOf("plugin"), io.MultiReader(strings.NewReader("plug"), iotest.ErrReader(io.ErrUnexpectedEOF))); err == nil {
		t.Error("a cut file was stored")
	}
	for _, digest := range []string{"", "md5:00", "sha256:..", "sha256:../../etc/passwd", strings.ToUpper(digestOf("x"))} {
		if _, err := s.Put(digest, strings.NewReader("x")); !errdefs.IsInvalidArgument(err) {
			t.Errorf("digest %q: %v", digest, err)
		}
	}
	if n := entries(t, dir); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

func TestTheStoreIsBounded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 10, 15)
	if _, err := s.Put(digestOf("elevenbytes"), strings.NewReader("elevenbytes")); !errdefs.IsResourceExhausted(err) {
		t.Errorf("a file of 11 bytes: %v", err)
	}
	put(t, s, "ten bytes.")
	if _, err := s.Put(digestOf("sixbyt"), strings.NewReader("sixbyt")); !errdefs.IsResourceExhausted(err) {
		t.Errorf("more than there is room for: %v", err)
	}
	put(t, s, "fives")
	if _, err := s.Put(digestOf("x"), strings.NewReader("x")); !errdefs.IsResourceExhausted(err) {
		t.Errorf("in a full store: %v", err)
	}
}

func TestOldFilesThatNothingNamesAreRemoved(t *testing.T) {
	s := open(t, t.TempDir(), 100, 100)
	put(t, s, "named")
	put(t, s, "not named")
	keep := func(digest string) bool { return digest == digestOf("named") }
	if err := s.Sweep(time.Now(), keep); err != nil {
		t.Fatal(err)
	}
	if list, err := s.List(); err != nil || len(list) != 2 {
		t.Fatalf("within the grace %d files are left, %v", len(list), err)
	}
	if err := s.Sweep(time.Now().Add(2*pluginfiles.Grace), keep); err != nil {
		t.Fatal(err)
	}
	if list, err := s.List(); err != nil || len(list) != 1 || list[0].Digest != digestOf("named") {
		t.Fatalf("after the grace there are %+v, %v", list, err)
	}
}

func TestAnUploadThatWasCutOffIsClearedAtTheNextStart(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "upload-123"), bytes.Repeat([]byte("x"), 10), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir, 100, 100)
	if n := entries(t, dir); n != 0 {
		t.Fatalf("%d files are left", n)
	}
}
