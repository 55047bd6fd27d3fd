// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package statshost

import (
	"context"

	"github.com/shirou/gopsutil/v4/disk"

	stats "github.com/drover-project/drover/sdk/stats/v1"
)

// NewMounts returns what measures the file systems of list with usage.
func NewMounts(list []disk.PartitionStat, usage func(dir string) (*disk.UsageStat, error)) func(context.Context, *stats.Sample) error {
	m := newMounts()
	m.list = func(context.Context) ([]disk.PartitionStat, error) { return list, nil }
	m.usage = func(_ context.Context, dir string) (*disk.UsageStat, error) { return usage(dir) }
	return func(ctx context.Context, s *stats.Sample) error { return m.read(ctx, config{}, s) }
}
