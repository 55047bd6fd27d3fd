// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package tasklog_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-project/drover/sdk/tasklog"
)

func open(t *testing.T) (string, *os.Root) {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "alloc", "logs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := tasklog.OpenDir(top, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return dir, root
}

func content(t *testing.T, path string) string {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestFilesRotateAndTheLastOnesAreKept(t *testing.T) {
	dir, root := open(t)
	w := tasklog.New(root, "web.stdout", tasklog.Limits{MaxFiles: 2, MaxFileBytes: 4})
	defer w.Close()
	for _, text := range []string{"aa", "aabb", "bbcccc", "d"} {
		if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 2 {
		t.Fatalf("files %v, %v; want 2", names, err)
	}
	if got := content(t, names[0]) + "|" + content(t, names[1]); got != "cccc|d" {
		t.Errorf("content %q", got)
	}
	if p := w.Position(); p != (tasklog.Position{Index: 3, Offset: 1}) {
		t.Errorf("position %+v", p)
	}
}

func TestANewWriterGoesOnWhereTheLastOneEnded(t *testing.T) {
	dir, root := open(t)
	limits := tasklog.Limits{MaxFiles: 3, MaxFileBytes: 4}
	one := tasklog.New(root, "o", limits)
	_, _ = one.Write([]byte("aaaab")) // never fails
	at := one.Position()
	_, _ = one.Write([]byte("bbbcc")) // never fails
	one.Close()
	two := tasklog.New(root, "o", limits)
	defer two.Close()
	if n := two.Since(at); n != 5 {
		t.Errorf("%d bytes since %+v, want 5", n, at)
	}
	_, _ = two.Write([]byte("c")) // never fails
	if got := content(t, filepath.Join(dir, "o.2")); got != "ccc" {
		t.Errorf("newest file %q", got)
	}
}

func TestWhatATaskPutInPlaceOfALogIsNotWritten(t *testing.T) {
	for name, plant := range map[string]func(dir, victim string) error{
		"link":       func(dir, victim string) error { return os.Symlink(victim, filepath.Join(dir, "o.0")) },
		"local link": func(dir, victim string) error { return os.Symlink("other", filepath.Join(dir, "o.0")) },
		"hard link":  func(dir, victim string) error { return os.Link(victim, filepath.Join(dir, "o.0")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, root := open(t)
			victims := []string{filepath.Join(dir, "..", "victim"), filepath.Join(dir, "other")}
			for _, v := range victims {
				if err := os.WriteFile(v, []byte("mine"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := plant(dir, victims[0]); err != nil {
				t.Fatal(err)
			}
			w := tasklog.New(root, "o", tasklog.Limits{MaxFiles: 1})
			defer w.Close()
			_, _ = w.Write([]byte("log")) // never fails
			for _, v := range victims {
				if got := content(t, v); got != "mine" {
					t.Errorf("%s has %q", v, got)
				}
			}
			if got := content(t, filepath.Join(dir, "o.0")); got != "log" {
				t.Errorf("the log has %q", got)
			}
		})
	}
}

func TestALogThatWasRemovedOrCutGoesOn(t *testing.T) {
	dir, root := open(t)
	w := tasklog.New(root, "o", tasklog.Limits{MaxFiles: 2, MaxFileBytes: 8})
	defer w.Close()
	_, _ = w.Write(bytes.Repeat([]byte("x"), 6)) // never fails
	if err := os.Remove(filepath.Join(dir, "o.0")); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte("after")) // never fails
	if got := content(t, filepath.Join(dir, "o.0")); got != "after" {
		t.Errorf("after a removal: %q", got)
	}
	if err := os.Truncate(filepath.Join(dir, "o.0"), 0); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte("again")) // never fails
	if got := content(t, filepath.Join(dir, "o.0")); got != "again" {
		t.Errorf("after a cut: %q", got)
	}
}

func TestALogDirectoryOutsideOfTheAllocIsRefused(t *testing.T) {
	top := t.TempDir()
	if err := os.Symlink("/", filepath.Join(top, "logs")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(top, "logs"), filepath.Dir(top)} {
		if root, err := tasklog.OpenDir(top, dir); err == nil {
			_ = root.Close()
			t.Errorf("%s was opened", dir)
		}
	}
}
