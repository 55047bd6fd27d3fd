// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocdir_test

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/sdk/errdefs"
)

func built(t *testing.T) allocdir.Dir {
	t.Helper()
	d := allocdir.New(t.TempDir(), "a1")
	for range 2 { // building twice is fine
		if err := d.Build(); err != nil {
			t.Fatal(err)
		}
		if err := d.BuildTask("web"); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func write(t *testing.T, path, body string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTheLayoutIsThatOfTheReference(t *testing.T) {
	d := built(t)
	for _, p := range []string{"alloc/data", "alloc/logs", "alloc/tmp", "web/local", "web/tmp"} {
		info, err := os.Stat(filepath.Join(d.Path, p))
		if err != nil || info.Mode().Perm() != 0o777 {
			t.Errorf("%s: %v %v", p, info, err)
		}
	}
	for _, p := range []string{"web", "web/secrets"} { // Admit opens them
		info, err := os.Stat(filepath.Join(d.Path, p))
		if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", p, info, err)
		}
	}
	tmp, err := d.Stat("web/tmp")
	if err != nil || tmp.FileMode != "dtrwxrwxrwx" {
		t.Errorf("web/tmp is %q (%v)", tmp.FileMode, err)
	}
}

func TestATaskNameNeverLeavesTheAllocsDirectory(t *testing.T) {
	d := built(t)
	for _, name := range []string{"..", ".", "", "a/b", "alloc", "a\x00b", `a\b`} {
		if err := d.BuildTask(name); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestNoPathLeavesTheAllocsDirectory(t *testing.T) {
	d := built(t)
	outside := filepath.Join(filepath.Dir(d.Path), "outside")
	write(t, outside, "no")
	links := map[string]string{"up": "../../../outside", "abs": outside, "loop": "loop", "dirup": "../../.."}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(d.Local("web"), name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{"../outside", "../../../../etc/passwd", "web/local/up", "web/local/abs", "web/local/loop", "web/local/dirup/outside"} {
		if f, err := d.Open(p); !errdefs.IsInvalidArgument(err) {
			if f != nil {
				f.Close()
			}
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestSecretsAreNotReadable(t *testing.T) {
	d := built(t)
	write(t, filepath.Join(d.Secrets("web"), "token"), "s3cret")
	if err := os.Symlink("../secrets/token", filepath.Join(d.Local("web"), "t")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../web/secrets", filepath.Join(d.Shared(), "s")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"web/secrets/token", "/web/secrets", "web/./secrets/token", "web/local/t", "alloc/s/token", "web/private"} {
		if _, err := d.Open(p); !errdefs.IsPermissionDenied(err) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestSecretsAreListedWithoutTheirContents(t *testing.T) {
	d := built(t)
	write(t, filepath.Join(d.Secrets("web"), "token.html"), "<html>s3cret")
	list, err := d.List("web/secrets")
	if err != nil || len(list) != 1 || list[0].Name != "token.html" || list[0].Size != 12 || list[0].ContentType != "" {
		t.Errorf("%+v, %v", list, err)
	}
	if info, err := d.Stat("web/secrets/token.html"); err != nil || info.Size != 12 || info.ContentType != "" {
		t.Errorf("%+v, %v", info, err)
	}
	for _, p := range []string{"web/private", "web/local/../private"} {
		if _, err := d.List(p); !errdefs.IsPermissionDenied(err) {
			t.Errorf("%s: %v", p, err)
		}
		if _, err := d.Stat(p); !errdefs.IsPermissionDenied(err) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestFilesAndLogsCanBeRead(t *testing.T) {
	d := built(t)
	write(t, filepath.Join(d.Local("web"), "a.txt"), "hello")
	for _, n := range []string{"0", "10", "2"} {
		write(t, d.LogPrefix("web", "stdout")+"."+n, n)
	}
	for _, n := range []string{"x", "+3", "03"} {
		write(t, d.LogPrefix("web", "stdout")+"."+n, "not a log")
	}
	// A task can make what cannot be read as one of its logs.
	if err := os.Symlink("/etc/passwd", d.LogPrefix("web", "stdout")+".20"); err != nil {
		t.Fatal(err)
	}
	f, err := d.Open("/web/local/a.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	body, err := io.ReadAll(f)
	if err != nil || string(body) != "hello" {
		t.Fatalf("%q %v", body, err)
	}
	info, err := d.Stat("web/local/a.txt")
	if err != nil || info.ContentType != "text/plain; charset=utf-8" || info.Size != 5 {
		t.Errorf("%+v %v", info, err)
	}
	logs, err := d.LogFiles("web", "stdout")
	if err != nil || len(logs) != 3 || logs[0].Num != 0 || logs[1].Num != 2 || logs[2].Num != 10 {
		t.Errorf("%+v %v", logs, err)
	}
	if _, err := d.Open("web/local/none"); !errdefs.IsNotFound(err) {
		t.Errorf("missing: %v", err)
	}
	top, err := d.List("/")
	if err != nil || len(top) != 2 || top[0].Name != "alloc" || top[1].Name != "web" {
		t.Errorf("%+v %v", top, err)
	}
}
