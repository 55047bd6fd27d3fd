// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// files is a folder with files of these contents, in place of a cgroup of a machine that
// this one is not.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func check(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	for name, text := range want {
		if raw, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(raw) != text {
			t.Errorf("%s: %q, %v; want %q", name, raw, err, text)
		}
	}
}

func TestALimitOfVersion2IsSetOnlyIfItKillsNothing(t *testing.T) {
	dir := files(t, map[string]string{"memory.max": "104857600", "memory.high": "max", "memory.low": "0", "memory.current": "41943041\n", "cpu.weight": "100"})
	c := &driver.Cgroup{Version: 2, Dirs: map[string]string{"memory": dir, "cpu": dir}}
	err := c.Update(driver.Resources{CPUMHz: 512, MemoryMB: 40})
	if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "uses 41 MiB") || !strings.Contains(err.Error(), "40 MiB") {
		t.Errorf("less than it uses: %v", err)
	}
	check(t, dir, map[string]string{"memory.max": "104857600", "memory.high": "max", "memory.low": "0", "cpu.weight": "100"})
	for range 2 {
		if err := c.Update(driver.Resources{CPUMHz: 512, MemoryMB: 41, MemoryMaxMB: 64}); err != nil {
			t.Fatal(err)
		}
	}
	check(t, dir, map[string]string{"memory.max": "67108864", "memory.high": "max", "memory.low": "42991616", "cpu.weight": "20"})
}

func TestALimitOfVersion1IsSetInTheOrderThatTheKernelWants(t *testing.T) {
	for _, before := range []string{"33554432\n", "134217728\n"} {
		dir := files(t, map[string]string{"memory.limit_in_bytes": before, "memory.memsw.limit_in_bytes": before, "memory.soft_limit_in_bytes": "1", "cpu.shares": "1024"})
		c := &driver.Cgroup{Version: 1, Dirs: map[string]string{"memory": dir, "cpu": dir}}
		if err := c.Update(driver.Resources{CPUMHz: 1, MemoryMB: 64}); err != nil {
			t.Fatal(err)
		}
		check(t, dir, map[string]string{"memory.limit_in_bytes": "67108864", "memory.memsw.limit_in_bytes": "67108864", "memory.soft_limit_in_bytes": "-1", "cpu.shares": "2"})
	}
}

func TestWithoutACgroupNothingIsUpdated(t *testing.T) {
	var none *driver.Cgroup
	if err := none.Update(driver.Resources{CPUMHz: 1, MemoryMB: 1}); err != nil {
		t.Error(err)
	}
}
