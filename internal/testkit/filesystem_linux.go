// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package testkit

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// FileSystem mounts a new file system of kind ext4 or xfs for a test, with options such as
// "prjquota", and returns where. It skips the test where that is not possible. A disk that
// the environment names for the kind (DROVER_TEST_DISK_ext4) is used instead of a new one.
func FileSystem(t testing.TB, kind, options string, size int64) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	if disk := os.Getenv("DROVER_TEST_DISK_" + kind); disk != "" {
		return mountDisk(t, disk, kind, options)
	}
	if _, err := exec.LookPath("mkfs." + kind); err != nil {
		t.Skipf("no file system can be made: %v", err)
	}
	dir := openDir(t)
	file, at := filepath.Join(dir, "image"), filepath.Join(dir, "mounted")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, size), os.Mkdir(at, 0o755)); err != nil {
		t.Fatal(err)
	}
	make := []string{"mkfs." + kind, "-q", file}
	if kind == "ext4" && strings.Contains(options, "prjquota") {
		make = []string{"mkfs.ext4", "-q", "-F", "-O", "quota,project", "-E", "quotatype=prjquota", file}
	}
	if out, err := exec.Command(make[0], make[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", make, err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop,"+options, file, at).CombinedOutput(); err != nil {
		t.Skipf("this machine does not mount %s with %s: %v: %s", kind, options, err, out)
	}
	unmountLater(t, at)
	return at
}

// openDir is a temporary directory that all users may pass, unlike that of t.TempDir.
func openDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "disk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // what is mounted there was unmounted before
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func unmountLater(t testing.TB, at string) {
	t.Helper()
	t.Cleanup(func() {
		if err := unix.Unmount(at, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
}

// mountDisk mounts a disk, which keeps its files, and returns a new directory in it.
func mountDisk(t testing.TB, disk, kind, options string) string {
	t.Helper()
	at := openDir(t)
	if err := unix.Mount(disk, at, kind, 0, options); err != nil {
		t.Fatalf("mount %s with %s: %v", disk, options, err)
	}
	unmountLater(t, at)
	dir, err := os.MkdirTemp(at, "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
