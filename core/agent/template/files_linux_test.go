// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A task that swaps a folder for a link while its template is rendered gets its
// file inside, or an error, never a file outside.
func TestSwappingFoldersForLinksNeverLeadsOutside(t *testing.T) {
	w := newWorld(t)
	outside := t.TempDir()
	dir, link := filepath.Join(w.task.TaskDir, "local/d"), filepath.Join(w.task.TaskDir, "local/link")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Symlink(outside, link)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE); err != nil {
		t.Skipf("the file system cannot swap: %v", err)
	}
	stop, swaps := make(chan struct{}), sync.WaitGroup{}
	swaps.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
		}
	})
	refused := 0
	for range 2000 {
		if err := w.renderTo("local/d/out"); err != nil {
			refused++
		}
	}
	close(stop)
	swaps.Wait()
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("written outside: %v, %v", left, err)
	}
	t.Logf("%d of 2000 were refused", refused)
}
