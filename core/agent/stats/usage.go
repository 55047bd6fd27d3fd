// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats

import (
	"slices"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
)

// AllocUsage is the body of /v1/client/allocation/ID/stats.
type AllocUsage struct {
	ResourceUsage *Usage
	Tasks         map[string]*TaskUsage
	Timestamp     int64
}

// TaskUsage is what one task uses.
type TaskUsage struct {
	ResourceUsage *Usage
	Timestamp     int64
	Pids          map[string]*Usage
}

// Usage is what something uses.
type Usage struct {
	MemoryStats MemoryUsage
	CpuStats    CPUUsage
	DeviceStats []*DeviceGroup
	// The reference has no such figures. They are absent where they are not measured.
	IOStats   *IOUsage `json:",omitempty"`
	Processes uint64   `json:",omitempty"`
}

// IOUsage is what tasks have read from and written to storage since they started.
type IOUsage struct {
	ReadBytes    uint64
	WrittenBytes uint64
	Reads        uint64
	Writes       uint64
	Measured     []string
}

// CPUUsage is in percent of a core; ticks are MHz.
type CPUUsage struct {
	SystemMode       float64
	UserMode         float64
	TotalTicks       float64
	ThrottledPeriods uint64
	ThrottledTime    uint64
	Percent          float64
	Measured         []string
}

// MemoryUsage is in bytes.
type MemoryUsage struct {
	RSS            uint64
	Cache          uint64
	Swap           uint64
	MappedFile     uint64
	Usage          uint64
	MaxUsage       uint64
	KernelUsage    uint64
	KernelMaxUsage uint64
	Measured       []string
}

// NewAllocUsage is the usage of an alloc that has no task.
func NewAllocUsage() *AllocUsage {
	return &AllocUsage{ResourceUsage: &Usage{DeviceStats: []*DeviceGroup{}}, Tasks: map[string]*TaskUsage{}}
}

// Add adds a task's sample. mhz is the speed of a core, for drivers that tell percents
// only; devices lists the task's devices.
func (u *AllocUsage) Add(task string, s driver.TaskStats, mhz float64, devices []*DeviceGroup) {
	t := &TaskUsage{ResourceUsage: usageOf(s.CPU, s.Memory, mhz), Timestamp: nanos(s.Time), Pids: make(map[string]*Usage, len(s.Pids))}
	for pid, p := range s.Pids {
		t.Pids[pid] = usageOf(p.CPU, p.Memory, mhz)
	}
	t.ResourceUsage.DeviceStats, t.ResourceUsage.Processes = devices, s.Processes
	if len(s.IO.Measured) > 0 {
		io := IOUsage(s.IO)
		t.ResourceUsage.IOStats = &io
	}
	u.Tasks[task] = t
	u.ResourceUsage.add(t.ResourceUsage)
	u.ResourceUsage.DeviceStats = append(u.ResourceUsage.DeviceStats, devices...)
	u.Timestamp = max(u.Timestamp, t.Timestamp)
}

func nanos(t time.Time) int64 { return t.UnixNano() }

func usageOf(c driver.CPUStats, m driver.MemoryStats, mhz float64) *Usage {
	return &Usage{CpuStats: cpuOf(c, mhz), MemoryStats: MemoryUsage(m)}
}

const (
	measuredPercent = "Percent"
	measuredTicks   = "Total Ticks"
)

func cpuOf(c driver.CPUStats, mhz float64) CPUUsage {
	out := CPUUsage{
		SystemMode: c.SystemMode, UserMode: c.UserMode, TotalTicks: c.TotalTicks, Percent: c.Percent,
		ThrottledPeriods: c.ThrottledPeriods, ThrottledTime: c.ThrottledTime, Measured: c.Measured,
	}
	if mhz > 0 && slices.Contains(c.Measured, measuredPercent) && !slices.Contains(c.Measured, measuredTicks) {
		out.TotalTicks = ticks(c.Percent, mhz)
		out.Measured = append(slices.Clip(c.Measured), measuredTicks)
	}
	return out
}

// ticks converts percents of a core to MHz.
func ticks(percent, mhz float64) float64 { return percent / 100 * mhz }

// add sums the tasks of an alloc.
func (u *Usage) add(v *Usage) {
	c, d := &u.CpuStats, v.CpuStats
	c.SystemMode += d.SystemMode
	c.UserMode += d.UserMode
	c.TotalTicks += d.TotalTicks
	c.Percent += d.Percent
	c.ThrottledPeriods += d.ThrottledPeriods
	c.ThrottledTime += d.ThrottledTime
	c.Measured = union(c.Measured, d.Measured)
	m, n := &u.MemoryStats, v.MemoryStats
	m.RSS += n.RSS
	m.Cache += n.Cache
	m.Swap += n.Swap
	m.MappedFile += n.MappedFile
	m.Usage += n.Usage
	m.MaxUsage += n.MaxUsage
	m.KernelUsage += n.KernelUsage
	m.KernelMaxUsage += n.KernelMaxUsage
	m.Measured = union(m.Measured, n.Measured)
	u.Processes += v.Processes
	if v.IOStats == nil {
		return
	}
	if u.IOStats == nil {
		u.IOStats = &IOUsage{}
	}
	x, y := u.IOStats, v.IOStats
	x.ReadBytes += y.ReadBytes
	x.WrittenBytes += y.WrittenBytes
	x.Reads += y.Reads
	x.Writes += y.Writes
	x.Measured = union(x.Measured, y.Measured)
}

func union(a, b []string) []string {
	for _, x := range b {
		if !slices.Contains(a, x) {
			a = append(a, x)
		}
	}
	return a
}
