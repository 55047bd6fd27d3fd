// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package nvmltest builds a fake libnvidia-ml.so.1, so that tests use the real C
// interface on machines without GPUs. It owns the source of that library:
// testdata/fake.c defines the GPUs and the files by which tests change them. Only
// tests import it.
package nvmltest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed testdata/fake.c
var source []byte

// Build compiles the library and returns its path. The files that change it are in
// the same directory. Without a C compiler it skips the test.
func Build(t *testing.T) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler (cc) to build the library with: apt-get install gcc libc6-dev")
	}
	dir := t.TempDir()
	c, lib := filepath.Join(dir, "fake.c"), filepath.Join(dir, "libnvidia-ml.so.1")
	if err := os.WriteFile(c, source, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-O1", "-o", lib, c, "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("build the library: %v\n%s", err, out)
	}
	return lib
}

// Say writes one of the files that change the library. Unsay removes it.
func Say(t *testing.T, lib, file, content string) {
	t.Helper()
	// Rename is atomic, so the library never reads a partial file.
	tmp := lib + ".tmp"
	if err := os.WriteFile(tmp, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(filepath.Dir(lib), file)); err != nil {
		t.Fatal(err)
	}
}

// Unsay removes a file that Say has written.
func Unsay(t *testing.T, lib, file string) {
	t.Helper()
	if err := os.Remove(filepath.Join(filepath.Dir(lib), file)); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}
