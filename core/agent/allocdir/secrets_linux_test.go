// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocdir_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/agent/mounts"
	"github.com/drover-project/drover/sdk/errdefs"
)

// inMemory is a built directory whose secrets are in memory, on a machine where
// the tests may mount.
func inMemory(t *testing.T) allocdir.Dir {
	t.Helper()
	d := built(t)
	if err := allocdir.ProbeSecrets(d.Path); errdefs.IsUnimplemented(err) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mounts.Detach(d.Path); err != nil {
			t.Error(err)
		}
	})
	if fresh, err := d.MountSecrets("web", 0); err != nil || !fresh {
		t.Fatal(fresh, err)
	}
	return d
}

func TestSecretsAreInMemoryAndSmall(t *testing.T) {
	d := inMemory(t)
	var fs syscall.Statfs_t
	if err := syscall.Statfs(d.Secrets("web"), &fs); err != nil {
		t.Fatal(err)
	}
	const tmpfs, noSuid, noDev, noExec = 0x01021994, 2, 4, 8
	if fs.Type != tmpfs || fs.Flags&(noSuid|noDev|noExec) != noSuid|noDev|noExec || fs.Blocks*uint64(fs.Bsize) != 1<<20 {
		t.Errorf("%+v", fs)
	}
	err := os.WriteFile(filepath.Join(d.Secrets("web"), "big"), bytes.Repeat([]byte("x"), 2<<20), 0o600)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("2 MiB in 1 MiB: %v", err)
	}
	if info, err := os.Stat(d.Secrets("web")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info, err)
	}
}

func TestSecretsInMemoryAreListedWithoutTheirContents(t *testing.T) {
	d := inMemory(t)
	write(t, filepath.Join(d.Secrets("web"), "token"), "s3cret")
	if list, err := d.List("web/secrets"); err != nil || len(list) != 1 || list[0].Name != "token" || list[0].Size != 6 {
		t.Errorf("%+v, %v", list, err)
	}
	if info, err := d.Stat("web/secrets/token"); err != nil || info.ContentType != "" {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := d.Open("web/secrets/token"); !errdefs.IsPermissionDenied(err) {
		t.Errorf("read: %v", err)
	}
}

func TestSecretsThatAreInMemoryAreFoundAgain(t *testing.T) {
	d := inMemory(t)
	token := filepath.Join(d.Secrets("web"), "token")
	write(t, token, "s3cret")
	if fresh, err := d.MountSecrets("web", 5); err != nil || fresh {
		t.Fatal(fresh, err)
	}
	if b, err := os.ReadFile(token); err != nil || string(b) != "s3cret" {
		t.Errorf("%q %v: another file system covers the first", b, err)
	}
}

func TestSecretsAreNotMountedThroughALink(t *testing.T) {
	for name, target := range map[string]string{"out of the alloc": t.TempDir(), "to what the tasks share": "../alloc/data"} {
		d := built(t)
		if err := os.Remove(d.Secrets("web")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, d.Secrets("web")); err != nil {
			t.Fatal(err)
		}
		if _, err := d.MountSecrets("web", 1); !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.ELOOP) {
			t.Errorf("a link %s: %v", name, err)
		}
		if err := mounts.Detach(d.Path); err != nil {
			t.Error(err)
		}
	}
}

func TestRemovingAnAllocsDirectoryNeverDeletesWhatIsMountedInIt(t *testing.T) {
	d := inMemory(t)
	host := t.TempDir()
	precious := filepath.Join(host, "precious")
	write(t, precious, "data")
	at := filepath.Join(d.Local("web"), "volume with space")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount(host, at, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.Path); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
	if b, err := os.ReadFile(precious); err != nil || string(b) != "data" {
		t.Errorf("what was mounted was deleted: %q %v", b, err)
	}
}
