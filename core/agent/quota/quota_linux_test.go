// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package quota_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/agent/quota"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

const mebibyte = 1 << 20

// kinds are the file systems with project quotas, and a size that mkfs takes for them.
var kinds = map[string]int64{"ext4": 64 * mebibyte, "xfs": 320 * mebibyte}

// write writes a file as a user without privileges, and returns what the program says.
func write(t *testing.T, file string, mebibytes string) (string, error) {
	t.Helper()
	cmd := exec.Command("dd", "if=/dev/zero", "of="+file, "bs=1M", "count="+mebibytes, "conv=fsync")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// open makes a directory in which everybody may write.
func open(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
}

func TestADirectoryIsLimitedByItsFileSystem(t *testing.T) {
	for kind, size := range kinds {
		t.Run(kind, func(t *testing.T) {
			dir := filepath.Join(testkit.FileSystem(t, kind, "prjquota", size), "a")
			other := dir + "-other"
			open(t, filepath.Join(dir, "deep"))
			open(t, other)
			if out, err := write(t, filepath.Join(dir, "deep", "before"), "2"); err != nil {
				t.Fatal(out)
			}
			if u, ok := quota.Measure(dir); ok {
				t.Errorf("without a limit it measures %+v", u)
			}
			for _, d := range []string{dir, other, dir} { // it may be repeated
				if err := quota.Limit(t.Context(), d, 8*mebibyte); err != nil {
					t.Fatal(err)
				}
			}
			if u, ok := quota.Measure(dir); !ok || u.Limit != 8*mebibyte || u.Bytes < 2*mebibyte || u.Bytes > 3*mebibyte {
				t.Errorf("what was there before does not count: %+v, %v", u, ok)
			}
			out, err := write(t, filepath.Join(dir, "deep", "more"), "20")
			if err == nil || !strings.Contains(out, "No space left") && !strings.Contains(out, "quota exceeded") {
				t.Errorf("more than the limit can be written: %v, %s", err, out)
			}
			if u, ok := quota.Measure(dir); !ok || u.Bytes < 7*mebibyte || u.Bytes > 8*mebibyte {
				t.Errorf("the full directory has %+v, %v", u, ok)
			}
			if out, err := write(t, filepath.Join(other, "file"), "4"); err != nil {
				t.Errorf("another directory is limited by that: %s", out)
			}
			if err := quota.Limit(t.Context(), dir, 16*mebibyte); err != nil {
				t.Fatal(err)
			}
			if out, err := write(t, filepath.Join(dir, "deep", "more"), "10"); err != nil {
				t.Errorf("with a larger limit: %s", out)
			}
			quota.Release(dir)
			if u, ok := quota.Measure(dir); ok {
				t.Errorf("a released directory has %+v", u)
			}
		})
	}
}

func TestDataMovesBetweenLimitedDirectoriesAndCountsWhereItIs(t *testing.T) {
	for kind, size := range kinds {
		t.Run(kind, func(t *testing.T) {
			top := testkit.FileSystem(t, kind, "prjquota", size)
			from, to := filepath.Join(top, "from"), filepath.Join(top, "to")
			open(t, filepath.Join(from, "data", "deep"))
			open(t, to)
			for _, d := range []string{from, to} {
				if err := quota.Limit(t.Context(), d, 8*mebibyte); err != nil {
					t.Fatal(err)
				}
			}
			if out, err := write(t, filepath.Join(from, "data", "deep", "file"), "4"); err != nil {
				t.Fatal(out)
			}
			if err := os.Symlink("/etc", filepath.Join(from, "data", "link")); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(filepath.Join(from, "data", "fifo"), 0o600); err != nil {
				t.Fatal(err)
			}
			data, moved := filepath.Join(from, "data"), filepath.Join(to, "data")
			if err := os.Rename(data, moved); !errors.Is(err, syscall.EXDEV) {
				t.Fatalf("the file system lets data of one limit move below another: %v", err)
			}
			if err := quota.Adopt(t.Context(), data, to); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(data, moved); err != nil {
				t.Fatal(err)
			}
			if u, _ := quota.Measure(to); u.Bytes < 4*mebibyte {
				t.Errorf("the data does not count where it is: %+v", u)
			}
			if u, _ := quota.Measure(from); u.Bytes > mebibyte {
				t.Errorf("the data still counts where it was: %+v", u)
			}
			if err := quota.Adopt(t.Context(), filepath.Join(from, "nothing"), to); err != nil {
				t.Errorf("what does not exist is not adopted: %v", err)
			}
		})
	}
}

func TestAFileSystemWithoutProjectQuotasSaysSo(t *testing.T) {
	for kind, size := range kinds {
		t.Run(kind, func(t *testing.T) {
			dir := testkit.FileSystem(t, kind, "noatime", size)
			for what, err := range map[string]error{"supported": quota.Supported(dir), "limit": quota.Limit(t.Context(), dir, mebibyte)} {
				if !errdefs.IsUnimplemented(err) || !strings.Contains(err.Error(), "prjquota") {
					t.Errorf("%s: %v", what, err)
				}
			}
			if err := quota.Adopt(t.Context(), dir, dir); err != nil {
				t.Error(err)
			}
			quota.Release(dir)
		})
	}
}
