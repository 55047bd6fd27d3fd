// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats

import (
	"errors"
	"strings"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/stats"
	"github.com/drover-project/drover/sdk/errdefs"
)

// HostStats is the usage of the machine at a moment: the body of /v1/client/stats,
// with the reference's names. Timestamp is the time of the measurement, which may be
// long ago while the collector is away.
type HostStats struct {
	Timestamp        int64
	Uptime           uint64
	Memory           *HostMemory
	CPU              []*HostCPU
	CPUTicksConsumed float64
	DiskStats        []*HostDisk
	AllocDirStats    *HostDisk
	DeviceStats      []*DeviceGroup
}

// HostMemory is the machine's memory in bytes.
type HostMemory struct{ Total, Available, Used, Free uint64 }

// HostCPU is the use of one core in percent.
type HostCPU struct {
	CPU          string
	User         float64
	System       float64
	Idle         float64
	TotalPercent float64
	TotalTicks   float64
}

// HostDisk is the use of one file system.
type HostDisk struct {
	Device            string
	Mountpoint        string
	Size              uint64
	Used              uint64
	Available         uint64
	UsedPercent       float64
	InodesUsedPercent float64
}

// merged contains the readings of the collectors; each part is from the first
// collector that has it.
type merged struct {
	at     time.Time // the oldest of what is used
	now    stats.Sample
	before *stats.CPU
}

// merge takes each part of the first collector by name that measured it.
func merge(readings []pluginhost.HostReading) merged {
	var m merged
	for _, r := range readings {
		if r.Now == nil {
			continue
		}
		used := false
		take := func(missing, there bool, do func()) {
			if missing && there {
				do()
				used = true
			}
		}
		n := &m.now
		take(n.CPU == nil, r.Now.CPU != nil, func() {
			n.CPU = r.Now.CPU
			if r.Before != nil {
				m.before = r.Before.CPU
			}
		})
		take(n.Memory == nil, r.Now.Memory != nil, func() { n.Memory = r.Now.Memory })
		take(n.Swap == nil, r.Now.Swap != nil, func() { n.Swap = r.Now.Swap })
		take(n.Load == nil, r.Now.Load != nil, func() { n.Load = r.Now.Load })
		take(n.Uptime == 0, r.Now.Uptime != 0, func() { n.Uptime = r.Now.Uptime })
		take(n.FileSystems == nil, r.Now.FileSystems != nil, func() { n.FileSystems = r.Now.FileSystems })
		take(n.Disks == nil, r.Now.Disks != nil, func() { n.Disks = r.Now.Disks })
		take(n.Networks == nil, r.Now.Networks != nil, func() { n.Networks = r.Now.Networks })
		take(n.Temperatures == nil, r.Now.Temperatures != nil, func() { n.Temperatures = r.Now.Temperatures })
		if used && (m.at.IsZero() || r.Now.Time.Before(m.at)) {
			m.at = r.Now.Time
		}
	}
	return m
}

// OfHost converts readings to the answer of /v1/client/stats. Values of a collector
// that is away are included, with their time. Unavailable: there are no values.
func OfHost(readings []pluginhost.HostReading, mhz float64) (*HostStats, error) {
	if len(readings) == 0 {
		return nil, errdefs.Unavailablef("no collector measures this node's machine; put the plugin stats-host into its plugin_dir")
	}
	m := merge(readings)
	if m.at.IsZero() {
		var why []error
		for _, r := range readings {
			why = append(why, r.Problem)
		}
		return nil, errdefs.Unavailablef("nothing has been measured of this node's machine: %w", errors.Join(why...))
	}
	out := &HostStats{Timestamp: m.at.UnixNano(), Uptime: uint64(m.now.Uptime / time.Second), DiskStats: []*HostDisk{}}
	if x := m.now.Memory; x != nil {
		out.Memory = &HostMemory{Total: x.Total, Available: x.Available, Used: x.Used, Free: x.Free}
	}
	out.CPU = m.cores(mhz)
	for _, c := range out.CPU {
		out.CPUTicksConsumed += c.TotalTicks
	}
	for _, f := range m.now.FileSystems {
		if strings.HasPrefix(f.Device, "/") {
			out.DiskStats = append(out.DiskStats, diskOf(f))
		}
	}
	return out, nil
}

func diskOf(f stats.FileSystem) *HostDisk {
	return &HostDisk{
		Device: f.Device, Mountpoint: f.Mountpoint, Size: f.Size, Used: f.Used, Available: f.Available,
		UsedPercent: percent(float64(f.Used), float64(f.Used+f.Available)), InodesUsedPercent: percent(float64(f.InodesUsed), float64(f.Inodes)),
	}
}

func percent(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * part / whole
}

// cores is the use of each core since the sample before, or, for a first one,
// since the machine started.
func (m *merged) cores(mhz float64) []*HostCPU {
	if m.now.CPU == nil {
		return nil
	}
	before := map[string]stats.CPUTimes{}
	if m.before != nil {
		for _, c := range m.before.Cores {
			before[c.Name] = c
		}
	}
	var out []*HostCPU
	for _, c := range m.now.CPU.Cores {
		b := before[c.Name]
		total := c.Sum() - b.Sum()
		use := &HostCPU{CPU: c.Name}
		if total > 0 {
			use.User, use.System = share(c.User-b.User, total), share(c.System-b.System, total)
			use.Idle = share(c.Idle-b.Idle, total)
			use.TotalPercent = 100 - use.Idle
			use.TotalTicks = ticks(use.TotalPercent, mhz)
		}
		out = append(out, use)
	}
	return out
}

// share returns a percentage, limited to 0..100, since the kernel does not read its
// counters at the same moment.
func share(part, total float64) float64 { return min(max(100*part/total, 0), 100) }
