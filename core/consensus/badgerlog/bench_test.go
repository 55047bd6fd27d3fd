// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package badgerlog_test

import (
	"fmt"
	"testing"

	"github.com/drover-project/drover/core/consensus/badgerlog"
)

// BenchmarkStoreLogs writes batches as raft does and truncates every 8,192
// entries, keeping 10,240 (raft's defaults), so that the cost of freeing the
// disk is in the figure.
func BenchmarkStoreLogs(b *testing.B) {
	profiles := map[string]badgerlog.Profile{"dev": badgerlog.ProfileDev, "server": badgerlog.ProfileServer}
	for name, profile := range profiles {
		for _, count := range []uint64{1, 64, 512} {
			for _, size := range []int{256, 4096} {
				b.Run(fmt.Sprintf("%s/%dx%d", name, count, size), func(b *testing.B) {
					benchStore(b, profile, count, size)
				})
			}
		}
	}
}

func benchStore(b *testing.B, profile badgerlog.Profile, count uint64, size int) {
	s, err := badgerlog.Open(badgerlog.Config{Dir: b.TempDir(), Profile: profile})
	if err != nil {
		b.Fatal(err)
	}
	defer closeStore(b, s)
	batch := entries(1, count, size)
	last, cut := uint64(0), uint64(0)
	b.SetBytes(int64(count) * int64(size))
	b.ResetTimer()
	for b.Loop() {
		for _, log := range batch {
			last++
			log.Index = last
		}
		mustStore(b, s, batch)
		if last >= cut+8192+10_240 {
			if err := s.DeleteRange(cut+1, cut+8192); err != nil {
				b.Fatal(err)
			}
			cut += 8192
		}
	}
	b.ReportMetric(float64(last)/b.Elapsed().Seconds(), "entries/s")
}
