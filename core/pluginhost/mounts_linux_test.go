// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/sdk/errdefs"
)

// remounted makes a directory a file system of its own and returns what gives it
// other options.
func remounted(t *testing.T, dir string) func(flags uintptr) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=100m"); err != nil {
		t.Skipf("file systems can be mounted by root only: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return func(flags uintptr) {
		t.Helper()
		// As a bind mount's: what runs keeps its file open.
		if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_BIND|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAPluginDirThatTakesNoFilesIsToldAndChangesNothing(t *testing.T) {
	for why, flags := range map[string]uintptr{"the agent may not write there": syscall.MS_RDONLY, "mounted noexec": syscall.MS_NOEXEC} {
		t.Run(why, func(t *testing.T) {
			cfg := quick(t)
			remount := remounted(t, cfg.Dir)
			h := start(t, cfg)
			first, err := install(t, h, "1.0.0", "")
			if err != nil {
				t.Fatal(err)
			}
			check := holds(t, shell(t, h), 2)
			remount(flags)
			if _, err := install(t, h, "2.0.0", ""); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), why) {
				t.Errorf("install: %v", err)
			}
			check()
			st := only(t, h)
			if st.PID != first.PID || st.Version != "1.0.0" || st.State != pluginhost.StateRunning || len(st.Bad) != 0 || st.Previous != "" {
				t.Errorf("status %+v", st)
			}
			remount(0)
			if st, err := install(t, h, "2.0.0", ""); err != nil || st.Version != "2.0.0" {
				t.Errorf("once it takes files: %+v, %v", st, err)
			}
			check()
		})
	}
}
