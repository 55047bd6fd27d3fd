// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package statshost

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/disk"

	stats "github.com/drover-project/drover/sdk/stats/v1"
)

// maxMounts is the number of file systems that are measured, and mountLimit the time
// limit for all of them together: a file system may hang forever.
const (
	maxMounts  = 500
	mountLimit = time.Second
)

// mounts measures file systems. A file system that has not answered is not queried
// again until it has, so a hanging one blocks one goroutine instead of one per
// interval.
type mounts struct {
	usage func(ctx context.Context, dir string) (*disk.UsageStat, error)
	list  func(ctx context.Context) ([]disk.PartitionStat, error)

	turn sync.Mutex // held while file systems are queried

	mu   sync.Mutex
	owes map[string]bool // mount points whose query has not returned
}

func newMounts() *mounts {
	return &mounts{
		owes: map[string]bool{},
		list: func(ctx context.Context) ([]disk.PartitionStat, error) { return disk.PartitionsWithContext(ctx, true) },
		usage: func(ctx context.Context, dir string) (*disk.UsageStat, error) {
			if st, err := os.Stat(dir); err != nil || !st.IsDir() {
				return nil, err // a file that is bind-mounted over another
			}
			return disk.UsageWithContext(ctx, dir)
		},
	}
}

// worth reports whether a mount should be reported: local disks, the root file
// system of any type, and the types that the operator lists. Others are virtual,
// such as proc, or belong to another machine, such as nfs, and may hang.
func worth(p disk.PartitionStat, cfg config) bool {
	if excluded(p.Mountpoint, cfg.ExcludeMounts) {
		return false
	}
	local := strings.HasPrefix(p.Device, "/") && !strings.HasPrefix(p.Device, "//") && !strings.HasPrefix(p.Fstype, "fuse.") && p.Fstype != "squashfs"
	return local || p.Mountpoint == "/" || p.Fstype == "zfs" || slices.Contains(cfg.FileSystemTypes, p.Fstype)
}

func (m *mounts) read(ctx context.Context, cfg config, s *stats.Sample) error {
	list, err := m.list(ctx)
	if err != nil {
		return err
	}
	byPoint := map[string]disk.PartitionStat{} // if several file systems are mounted at one path, the last one is visible
	var points []string
	for _, p := range list {
		if !worth(p, cfg) {
			continue
		}
		if _, again := byPoint[p.Mountpoint]; !again {
			if len(points) == maxMounts {
				continue
			}
			points = append(points, p.Mountpoint)
		}
		byPoint[p.Mountpoint] = p
	}
	slices.Sort(points)
	uses, away := m.measure(ctx, points)
	for _, point := range points {
		u := uses[point]
		if u == nil || u.Total == 0 {
			continue
		}
		p := byPoint[point]
		s.FileSystems = append(s.FileSystems, stats.FileSystem{
			Device: p.Device, Mountpoint: point, Type: p.Fstype, ReadOnly: slices.Contains(p.Opts, "ro"),
			Size: u.Total, Used: min(u.Used, u.Total), Available: min(u.Free, u.Total), Inodes: u.InodesTotal, InodesUsed: min(u.InodesUsed, u.InodesTotal),
		})
	}
	switch {
	case len(away) > 0:
		return fmt.Errorf("does not answer: %s", strings.Join(away, ", "))
	case len(s.FileSystems) == 0:
		return errNone
	}
	return nil
}

// answer is the result for one file system. use is nil if there is none.
type answer struct {
	point string
	use   *disk.UsageStat
}

// measure queries all file systems concurrently, except those whose previous query
// has not returned.
func (m *mounts) measure(ctx context.Context, points []string) (uses map[string]*disk.UsageStat, away []string) {
	m.turn.Lock()
	defer m.turn.Unlock()
	answers := make(chan answer, len(points)) // buffered for all, so that late answers do not block
	waiting := map[string]bool{}
	for _, point := range points {
		if !m.owe(point) {
			away = append(away, point)
			continue
		}
		waiting[point] = true
		go func() {
			use, err := m.usage(ctx, point)
			if err != nil {
				use = nil // it was unmounted meanwhile, or we lack the permission
			}
			m.paid(point)
			answers <- answer{point, use}
		}()
	}
	timer := time.NewTimer(mountLimit)
	defer timer.Stop()
	uses = make(map[string]*disk.UsageStat, len(points))
	for over := false; len(waiting) > 0 && !over; {
		select {
		case a := <-answers:
			delete(waiting, a.point)
			uses[a.point] = a.use
		case <-timer.C:
			over = true
		case <-ctx.Done():
			over = true
		}
	}
	away = slices.AppendSeq(away, maps.Keys(waiting))
	slices.Sort(away)
	return uses, away
}

// owe marks a file system as being queried. It returns false if it already is.
func (m *mounts) owe(point string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owes[point] {
		return false
	}
	m.owes[point] = true
	return true
}

func (m *mounts) paid(point string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.owes, point)
}
