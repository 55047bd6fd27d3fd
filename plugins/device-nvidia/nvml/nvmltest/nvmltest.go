// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package nvmltest builds a libnvidia-ml.so.1 that has GPUs where the machine has
// none, so that the way through the C interface is the one of production. It
// owns that library's source; testdata/fake.c says which GPUs it has and by which files
// tests change them. Only tests import it.
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

// Build returns the path of the library, which lies in a folder of its own with
// the files that change it. It needs a C compiler and skips the test without one.
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

// Say makes one of the files that change the library; Unsay removes it.
func Say(t *testing.T, lib, file, content string) {
	t.Helper()
	// In one step: the library may look while it is written.
	tmp := lib + ".tmp"
	if err := os.WriteFile(tmp, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(filepath.Dir(lib), file)); err != nil {
		t.Fatal(err)
	}
}

// Unsay takes back what Say said.
func Unsay(t *testing.T, lib, file string) {
	t.Helper()
	if err := os.Remove(filepath.Join(filepath.Dir(lib), file)); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}
