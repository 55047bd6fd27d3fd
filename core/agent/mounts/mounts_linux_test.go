// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package mounts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// mounted returns a folder with mounts: on a folder, twice on another one, on a file, below a
// mount, on the folder secrets, and far down.
func mounted(t *testing.T) (dir, host string) {
	t.Helper()
	dir, host = t.TempDir(), t.TempDir()
	mkdir := func(path string) string {
		t.Helper()
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := func(path string) string {
		t.Helper()
		if err := os.WriteFile(path, []byte("data"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	bind := func(from, to string) {
		t.Helper()
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			t.Skipf("the tests may not mount: %v", err)
		}
	}
	t.Cleanup(func() {
		if err := Detach(dir); err != nil {
			t.Error(err)
		}
	})
	mkdir(filepath.Join(host, "inner"))
	file(filepath.Join(host, "precious"))
	bind(host, mkdir(filepath.Join(dir, "with space")))
	bind(host, filepath.Join(dir, "with space", "inner"))
	bind(host, mkdir(filepath.Join(dir, "twice")))
	bind(dir, filepath.Join(dir, "twice"))
	bind(filepath.Join(host, "precious"), file(filepath.Join(dir, "file")))
	bind(host, mkdir(filepath.Join(dir, "secrets")))
	bind(host, mkdir(filepath.Join(dir, strings.Repeat("deep/", 50), "down")))
	if err := os.Symlink(host, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	return dir, host
}

func below(t *testing.T, dir string) []string {
	t.Helper()
	points, err := listed(dir)
	if err != nil {
		t.Fatal(err)
	}
	return points
}

func TestEverythingBelowAFolderIsUnmountedAndNothingIsDeleted(t *testing.T) {
	for name, detach := range map[string]func(string) error{
		"by walking": Detach,
		"as listed":  func(dir string) error { return detachListed(dir, func(string) bool { return true }) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, host := mounted(t)
			if len(below(t, dir)) < 7 {
				t.Fatalf("the mounts are %q", below(t, dir))
			}
			if err := detach(dir); err != nil {
				t.Fatal(err)
			}
			if left := below(t, dir); len(left) > 0 {
				t.Errorf("%q are still mounted", left)
			}
			if b, err := os.ReadFile(filepath.Join(host, "precious")); err != nil || string(b) != "data" {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}

func TestWhatIsMountedOnTheFolderItselfIsUnmounted(t *testing.T) {
	dir, host := mounted(t)
	for range 2 {
		if err := unix.Mount(host, dir, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := Detach(dir); err != nil {
		t.Fatal(err)
	}
	if left := below(t, dir); len(left) > 0 {
		t.Errorf("%q are still mounted", left)
	}
}

func TestOneEntryAndTheFolderItselfMayStayMounted(t *testing.T) {
	dir, _ := mounted(t)
	if err := DetachBelow(dir, "secrets"); err != nil {
		t.Fatal(err)
	}
	if left := below(t, dir); len(left) != 1 || left[0] != "secrets" {
		t.Errorf("%q are mounted", left)
	}
}

func TestAFolderThatIsNotThereHasNoMounts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	for name, detach := range map[string]func(string) error{"Detach": Detach, "DetachBelow": func(dir string) error { return DetachBelow(dir, "") }} {
		if err := detach(dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAProcessKnowsThatItsMountsEndWithIt(t *testing.T) {
	if os.Getenv("DROVER_MOUNTS_TEST") != "" {
		fmt.Print(Private())
		os.Exit(0)
	}
	if os.Geteuid() != 0 {
		t.Skip("mount namespaces need root")
	}
	if name, err := os.ReadFile("/proc/2/comm"); err != nil || string(name) != "kthreadd\n" {
		t.Skip("the machine's own mount namespace is not known here")
	}
	c := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$")
	c.Env = append(os.Environ(), "DROVER_MOUNTS_TEST=1")
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if out, err := c.CombinedOutput(); err != nil || string(out) != "true" {
		t.Errorf("in a namespace of its own: %s, %v", out, err)
	}
}
