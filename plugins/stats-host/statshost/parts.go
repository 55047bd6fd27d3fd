// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package statshost

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/net"
	"github.com/shirou/gopsutil/v4/sensors"

	stats "github.com/drover-project/drover/sdk/stats/v1"
)

// maxOfAKind is the number of disks, interfaces or sensors in one sample.
const maxOfAKind = 1000

func readCPU(ctx context.Context, _ config, s *stats.Sample) error {
	cores, err := cpu.TimesWithContext(ctx, true)
	if err != nil {
		return err
	}
	if len(cores) == 0 {
		return errNone
	}
	c := &stats.CPU{Total: stats.CPUTimes{Name: "cpu"}}
	for _, t := range cores {
		core := stats.CPUTimes{
			Name: t.CPU, User: t.User, Nice: t.Nice, System: t.System, Idle: t.Idle, IOWait: t.Iowait, IRQ: t.Irq, SoftIRQ: t.Softirq, Steal: t.Steal,
		}
		c.Cores = append(c.Cores, core)
		c.Total.User += core.User
		c.Total.Nice += core.Nice
		c.Total.System += core.System
		c.Total.Idle += core.Idle
		c.Total.IOWait += core.IOWait
		c.Total.IRQ += core.IRQ
		c.Total.SoftIRQ += core.SoftIRQ
		c.Total.Steal += core.Steal
	}
	s.CPU = c
	return nil
}

func readMemory(ctx context.Context, _ config, s *stats.Sample) error {
	m, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return err
	}
	s.Memory = &stats.Memory{
		Total: m.Total, Available: m.Available, Used: m.Used, Free: m.Free, Buffers: m.Buffers, Cached: m.Cached, Shared: m.Shared,
	}
	return nil
}

func readSwap(ctx context.Context, _ config, s *stats.Sample) error {
	w, err := mem.SwapMemoryWithContext(ctx)
	if err != nil {
		return err
	}
	s.Swap = &stats.Swap{Total: w.Total, Used: w.Used, Free: w.Free, In: w.Sin, Out: w.Sout}
	return nil
}

func readDisks(ctx context.Context, cfg config, s *stats.Sample) error {
	disks, err := disk.IOCountersWithContext(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(disks)) {
		d := disks[name]
		if excluded(name, cfg.ExcludeDisks) || len(s.Disks) == maxOfAKind {
			continue
		}
		s.Disks = append(s.Disks, stats.Disk{
			Device: name, Reads: d.ReadCount, Writes: d.WriteCount, ReadBytes: d.ReadBytes, WrittenBytes: d.WriteBytes,
			ReadTime: millis(d.ReadTime), WriteTime: millis(d.WriteTime), BusyTime: millis(d.IoTime), InFlight: d.IopsInProgress,
		})
	}
	if len(s.Disks) == 0 {
		return errNone
	}
	return nil
}

func millis(n uint64) time.Duration { return time.Duration(n) * time.Millisecond }

func readNetworks(ctx context.Context, cfg config, s *stats.Sample) error {
	list, err := net.IOCountersWithContext(ctx, true)
	if err != nil {
		return err
	}
	for _, n := range list {
		if excluded(n.Name, cfg.ExcludeInterfaces) || len(s.Networks) == maxOfAKind {
			continue
		}
		s.Networks = append(s.Networks, stats.Network{
			Interface:     n.Name,
			ReceivedBytes: n.BytesRecv, ReceivedPackets: n.PacketsRecv, ReceivedErrors: n.Errin, ReceivedDrops: n.Dropin,
			SentBytes: n.BytesSent, SentPackets: n.PacketsSent, SentErrors: n.Errout, SentDrops: n.Dropout,
		})
	}
	if len(s.Networks) == 0 {
		return errNone
	}
	return nil
}

// readTemperatures reads all sensors that can be read.
func readTemperatures(ctx context.Context, _ config, s *stats.Sample) error {
	list, err := sensors.TemperaturesWithContext(ctx)
	seen := map[string]int{}
	for _, t := range list[:min(len(list), maxOfAKind)] {
		name := t.SensorKey
		if seen[t.SensorKey]++; seen[t.SensorKey] > 1 {
			name = fmt.Sprintf("%s_%d", t.SensorKey, seen[t.SensorKey])
		}
		s.Temperatures = append(s.Temperatures, stats.Temperature{Sensor: name, Celsius: t.Temperature, High: limit(t.High), Critical: limit(t.Critical)})
	}
	switch {
	case len(list) > 0:
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("this machine has no sensors: %w", errNone)
}

// limit returns nil if a sensor has no limit.
func limit(v float64) *float64 {
	if v == 0 {
		return nil
	}
	return &v
}

func readLoad(ctx context.Context, _ config, s *stats.Sample) error {
	l, err := load.AvgWithContext(ctx)
	if err != nil {
		return err
	}
	s.Load = &stats.Load{One: l.Load1, Five: l.Load5, Fifteen: l.Load15}
	return nil
}

func readUptime(ctx context.Context, _ config, s *stats.Sample) error {
	up, err := host.UptimeWithContext(ctx)
	if err != nil {
		return err
	}
	s.Uptime = time.Duration(up) * time.Second
	return nil
}
