// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestCollectionOfAllocsIsConfigured(t *testing.T) {
	c := config.DevDefaults()
	if err := c.Merge("a.hcl", []byte("client {\n gc_interval = \"5m\"\n gc_parallel_destroys = 4\n gc_disk_usage_threshold = 90\n gc_inode_usage_threshold = 50.5\n gc_max_allocs = 7\n}")); err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(); err != nil {
		t.Fatal(err)
	}
	x := c.Client
	if x.GCInterval != "5m" || x.GCParallel != 4 || x.GCDiskUsage != 90 || x.GCInodeUsage != 50.5 || x.GCMaxAllocs != 7 || len(c.Warnings) > 0 {
		t.Errorf("%+v, warnings %v", x, c.Warnings)
	}
}

func TestImpossibleCollectionOfAllocsIsRefused(t *testing.T) {
	for _, line := range []string{"gc_interval = \"often\"", "gc_disk_usage_threshold = 101", "gc_inode_usage_threshold = -1", "gc_parallel_destroys = -1"} {
		c := config.DevDefaults()
		if err := c.Merge("a.hcl", []byte("client {\n"+line+"\n}")); err != nil {
			t.Fatal(err)
		}
		key, _, _ := strings.Cut(line, " ")
		if err := c.Finish(); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
