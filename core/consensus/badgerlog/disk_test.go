// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package badgerlog_test

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/consensus/badgerlog"
)

// diskUse sums the blocks that the files really take: badger's write-ahead
// files are sparse.
func diskUse(t testing.TB, dir string) int64 {
	t.Helper()
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil // deleted while we looked
		}
		sum += info.Sys().(*syscall.Stat_t).Blocks * 512
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestSteadyTruncationKeepsTheDirectorySmall(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer closeStore(t, s)
	const keep, every, total = 10_000, 8192, 25 * 8192 // 50 MB of entries
	var peak int64
	for last := uint64(0); last < total; {
		mustStore(t, s, entries(last+1, last+512, 256))
		last += 512
		if last%every == 0 && last > keep {
			first, _ := bounds(t, s)
			if err := s.DeleteRange(first, last-keep); err != nil {
				t.Fatal(err)
			}
			peak = max(peak, diskUse(t, dir))
		}
	}
	t.Logf("disk: peak %d KB, end %d KB", peak>>10, diskUse(t, dir)>>10)
	if limit := int64(32 << 20); peak > limit {
		t.Fatalf("the directory grew to %d MB while about 3 MB of entries were kept; want at most %d MB", peak>>20, limit>>20)
	}
}

func TestOneLargeTruncationGivesTheDiskBack(t *testing.T) {
	for _, profile := range []badgerlog.Profile{badgerlog.ProfileDev, badgerlog.ProfileServer} {
		dir := t.TempDir()
		s, err := badgerlog.Open(badgerlog.Config{Dir: dir, Profile: profile})
		if err != nil {
			t.Fatal(err)
		}
		const total = 200_000
		for last := uint64(0); last < total; last += 1000 {
			mustStore(t, s, entries(last+1, last+1000, 500))
		}
		full := diskUse(t, dir)
		if err := s.DeleteRange(1, total-5000); err != nil {
			t.Fatal(err)
		}
		after := diskUse(t, dir)
		t.Logf("profile %d: disk: full %d MB, after %d MB", profile, full>>20, after>>20)
		if after > full/4 {
			t.Errorf("deleting 97 %% of the entries took the directory from %d to %d MB", full>>20, after>>20)
		}
		wantBounds(t, s, total-4999, total)
		closeStore(t, s)
	}
}
