// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package tasklog_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-project/drover/sdk/tasklog"
)

func open(t *testing.T, base string, files int) *tasklog.Writer {
	t.Helper()
	w, err := tasklog.Open(base, files, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestFullFilesAreRotatedAndTheOldestGo(t *testing.T) {
	dir := t.TempDir()
	w := open(t, filepath.Join(dir, "t.stdout"), 2)
	line := bytes.Repeat([]byte("x"), 1<<20)
	for range 3 {
		if n, err := w.Write(append(line, 'y')); n != len(line)+1 || err != nil {
			t.Fatal(n, err)
		}
	}
	got := names(t, dir)
	if len(got) != 2 || got[0] != "t.stdout.2" || got[1] != "t.stdout.3" {
		t.Fatalf("files: %v", got)
	}
	if st, _ := os.Stat(filepath.Join(dir, "t.stdout.3")); st.Size() != 3 {
		t.Fatalf("the newest has %d bytes, want 3", st.Size())
	}
	if w.Dropped() != 0 {
		t.Fatalf("%d bytes were dropped", w.Dropped())
	}
}

func TestAWriterGoesOnWithTheNewestFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"t.stdout.9", "t.stdout.10", "t.stdout.x", "other.stdout.12"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("old "), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = open(t, filepath.Join(dir, "t.stdout"), 20).Write([]byte("new"))
	if body, _ := os.ReadFile(filepath.Join(dir, "t.stdout.10")); string(body) != "old new" {
		t.Fatalf("the newest file holds %q", body)
	}
}

func TestALinkInTheLogsPlaceIsNotFollowed(t *testing.T) {
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("safe"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(dir, "t.stdout.0")); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	_, _ = open(t, filepath.Join(dir, "t.stdout"), 2).Write([]byte("evil"))
	if body, _ := os.ReadFile(victim); string(body) != "safe" {
		t.Fatalf("what the link leads to was written: %q", body)
	}
	if body, _ := os.ReadFile(filepath.Join(dir, "t.stdout.0")); string(body) != "evil" {
		t.Fatalf("the log holds %q", body)
	}
}
