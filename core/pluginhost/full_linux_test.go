// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestAFullDiskIsToldAndChangesNothing(t *testing.T) {
	cfg := quick(t)
	cfg.StateDir = t.TempDir()
	if err := syscall.Mount("tmpfs", cfg.StateDir, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("a small disk can be had by root only: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(cfg.StateDir, syscall.MNT_DETACH) })
	h := start(t, cfg)
	source, digest := release(t, "1.0.0", "")
	first, err := h.Install(t.Context(), pluginhost.Release{Name: "versioned", Source: source, Digest: digest})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.StateDir, "filler"), make([]byte, 24<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	_, err = install(t, h, "2.0.0", "")
	if !errdefs.IsResourceExhausted(err) {
		t.Fatalf("install: %v", err)
	}
	if st := only(t, h); st.PID != first.PID || st.Version != "1.0.0" || st.State != pluginhost.StateRunning || len(st.Bad) != 0 {
		t.Fatalf("status %+v", st)
	}
	if left, _ := filepath.Glob(filepath.Join(cfg.StateDir, "versions", ".fetch-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
