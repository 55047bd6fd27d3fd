// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package fingerprint detects the properties and resources of a node: it owns the
// attributes of the machine, with the reference's names, and the node's resources. It
// does not know drivers, devices or servers. Only core/agent may import it.
package fingerprint

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"

	"github.com/drover-project/drover/core/model"
)

// Options are the operator's overrides. Zero values are detected.
type Options struct {
	Interface string // network interface; "" is the one of the default route
	// NetworkSpeed is the speed of the interface in MBit/s; 0 means 1000.
	NetworkSpeed int
	// HostNetworks are named sets of the machine's addresses, by name.
	HostNetworks map[string]*model.HostNetworkConfig
	// NoServices keeps groups with services of provider "nomad" from the node.
	NoServices      bool
	DataDir         string // whose file system is the node's disk
	Version         string // the agent's, for nomad.version
	AdvertiseHTTP   string // HOST:PORT
	CPUTotalCompute int    // MHz
	MemoryMB        int
	DiskTotalMB     int
	DiskFreeMB      int // disk space that allocs may use
	// ReservableCores are the cores that tasks may reserve exclusively; nil means all.
	ReservableCores []uint16
	MinDynamicPort  int // default 20000
	MaxDynamicPort  int // default 32000
	Reserved        *model.NodeReservedResources
}

// Facts are the detected properties and resources.
type Facts struct {
	Hostname   string
	Attributes map[string]string
	Resources  *model.NodeResources
	// Reserved are the resources that allocs may not use: Options.Reserved, with the
	// compute of its cores.
	Reserved *model.NodeReservedResources
	// Problems are sentences about overrides that keep tasks from the node, because they do
	// not suit the machine.
	Problems []string
}

// Version that scheduling constraints on nomad.version compare against: the
// interface level of the reference that we speak.
const interfaceVersion = "2.0.6"

// Probe inspects the machine. Properties that cannot be detected are left out.
func Probe(ctx context.Context, o Options) *Facts {
	f := &Facts{Attributes: map[string]string{}, Resources: &model.NodeResources{
		MinDynamicPort: orInt(o.MinDynamicPort, 20000), MaxDynamicPort: orInt(o.MaxDynamicPort, 32000),
	}}
	f.probeHost(ctx)
	f.probeCPU(ctx, o)
	f.probeMemory(ctx, o)
	f.probeDisk(ctx, o)
	f.probeNetwork(o)
	f.probeHostNetworks(o)
	f.probePlatform()
	f.set("nomad.version", interfaceVersion)
	f.set("drover.version", o.Version)
	f.set("nomad.service_discovery", strconv.FormatBool(!o.NoServices))
	f.set("unique.advertise.address", o.AdvertiseHTTP)
	f.set("os.signals", strings.Join(signals(), ","))
	f.checkReserved()
	return f
}

func orInt(v, def int) int {
	if v != 0 {
		return v
	}
	return def
}

// set leaves out what is not known.
func (f *Facts) set(key, value string) {
	if value != "" {
		f.Attributes[key] = value
	}
}

func (f *Facts) probeHost(ctx context.Context) {
	f.set("kernel.name", runtime.GOOS)
	info, err := host.InfoWithContext(ctx)
	if err != nil {
		return
	}
	f.Hostname = info.Hostname
	f.set("unique.hostname", info.Hostname)
	f.set("unique.host_id", info.HostID)
	f.set("kernel.version", info.KernelVersion)
	f.set("kernel.arch", info.KernelArch)
	f.set("os.name", info.Platform)
	f.set("os.version", info.PlatformVersion)
}

func (f *Facts) probeCPU(ctx context.Context, o Options) {
	f.set("cpu.arch", runtime.GOARCH)
	cores := runtime.NumCPU()
	if n, err := cpu.CountsWithContext(ctx, true); err == nil && n > 0 {
		cores = n
	}
	mhz := 1000 // assumed if the speed of the machine is not known
	if infos, err := cpu.InfoWithContext(ctx); err == nil && len(infos) > 0 {
		f.set("cpu.modelname", infos[0].ModelName)
		if m := int(infos[0].Mhz); m > 0 {
			mhz = m
		}
	}
	total := mhz * cores
	if o.CPUTotalCompute > 0 {
		total = o.CPUTotalCompute
	}
	f.reserve(o.Reserved, cores, total)
	usable := total - int(f.Reserved.Cpu.CpuShares)
	f.set("cpu.frequency", strconv.Itoa(mhz))
	f.set("cpu.numcores", strconv.Itoa(cores))
	f.set("cpu.totalcompute", strconv.Itoa(total))
	f.set("cpu.usablecompute", strconv.Itoa(usable))
	t := topology("/", cores)
	t.OverrideTotalCompute = uint64(o.CPUTotalCompute)
	c := &f.Resources.Cpu
	c.CpuShares, c.TotalCpuCores = int64(total), uint16(cores)
	byNode := map[uint8][]uint16{}
	for i := range t.Cores {
		core := &t.Cores[i]
		core.Grade, core.BaseSpeed = true, uint64(mhz)
		core.Disable = slices.Contains(f.Reserved.Cpu.ReservedCpuCores, core.ID)
		if !core.Disable && (o.ReservableCores == nil || slices.Contains(o.ReservableCores, core.ID)) {
			c.ReservableCpuCores = append(c.ReservableCpuCores, core.ID)
		}
		byNode[core.NodeID] = append(byNode[core.NodeID], core.ID)
	}
	f.set("numa.node.count", strconv.Itoa(len(t.Nodes)))
	for node, ids := range byNode {
		f.set(fmt.Sprintf("numa.node%d.cores", node), formatList(ids))
	}
	f.set("cpu.reservablecores", strconv.Itoa(len(c.ReservableCpuCores)))
	f.Resources.Processors.Topology = t
	f.checkCores("reservable_cores", o.ReservableCores, t)
	if o.Reserved != nil {
		f.checkCores("reserved.cores", o.Reserved.Cpu.ReservedCpuCores, t)
	}
}

// checkCores names the cores of a list that the machine does not have.
func (f *Facts) checkCores(key string, listed []uint16, t *model.Topology) {
	absent := slices.DeleteFunc(slices.Clone(listed), func(id uint16) bool {
		return slices.ContainsFunc(t.Cores, func(c model.Core) bool { return c.ID == id })
	})
	if len(absent) > 0 {
		f.problem("client.%s names cores that this machine does not have: %s", key, formatList(absent))
	}
}

// reserve computes the reserved resources. Cores that the machine does not have are
// ignored; each of the others reserves its share of the compute.
func (f *Facts) reserve(asked *model.NodeReservedResources, cores, total int) {
	f.Reserved = &model.NodeReservedResources{}
	if asked != nil {
		*f.Reserved = *asked
	}
	cpu := &f.Reserved.Cpu
	cpu.ReservedCpuCores = slices.DeleteFunc(slices.Clone(cpu.ReservedCpuCores), func(c uint16) bool { return int(c) >= cores })
	cpu.CpuShares = min(cpu.CpuShares+uint64(len(cpu.ReservedCpuCores)*total/cores), uint64(total))
}

// checkReserved names the resources of which nothing is left for allocs.
func (f *Facts) checkReserved() {
	for _, r := range []struct {
		key              string
		reserved, usable uint64
	}{
		{"cpu", f.Reserved.Cpu.CpuShares, uint64(f.Resources.Cpu.CpuShares)},
		{"memory", f.Reserved.Memory.MemoryMB, uint64(f.Resources.Memory.MemoryMB)},
		{"disk", f.Reserved.Disk.DiskMB, uint64(f.Resources.Disk.DiskMB)},
	} {
		if r.reserved > 0 && r.reserved >= r.usable {
			f.problem("client.reserved.%s leaves nothing for allocs: %d of %d are reserved, so nothing is placed here", r.key, r.reserved, r.usable)
		}
	}
}

func (f *Facts) problem(format string, args ...any) {
	f.Problems = append(f.Problems, fmt.Sprintf(format, args...))
}

func (f *Facts) probeMemory(ctx context.Context, o Options) {
	if m, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		f.set("memory.totalbytes", strconv.FormatUint(m.Total, 10))
		f.Resources.Memory.MemoryMB = int64(m.Total >> 20)
	}
	if o.MemoryMB > 0 {
		f.set("memory.totalbytes", strconv.Itoa(o.MemoryMB<<20))
		f.Resources.Memory.MemoryMB = int64(o.MemoryMB)
	}
}

func (f *Facts) probeDisk(ctx context.Context, o Options) {
	dir := o.DataDir
	if dir == "" {
		dir = "/"
	}
	if u, err := disk.UsageWithContext(ctx, dir); err == nil {
		f.set("unique.storage.bytestotal", strconv.FormatUint(u.Total, 10))
		f.set("unique.storage.bytesfree", strconv.FormatUint(u.Free, 10))
		f.set("unique.storage.volume", device(ctx, u.Path))
		f.Resources.Disk.DiskMB = int64(u.Total >> 20)
	}
	// Free space changes constantly, and each change would cause a registration.
	delete(f.Attributes, "unique.storage.bytesfree")
	if o.DiskTotalMB > 0 {
		f.set("unique.storage.bytestotal", strconv.Itoa(o.DiskTotalMB<<20))
		f.Resources.Disk.DiskMB = int64(o.DiskTotalMB)
	}
	if o.DiskFreeMB > 0 {
		f.set("unique.storage.bytesfree", strconv.Itoa(o.DiskFreeMB<<20))
		f.Resources.Disk.DiskMB = int64(o.DiskFreeMB)
	}
}

// device returns the device of the file system that contains a path.
func device(ctx context.Context, path string) string {
	parts, err := disk.PartitionsWithContext(ctx, false)
	if err != nil {
		return ""
	}
	best, name := "", ""
	for _, p := range parts {
		under := p.Mountpoint == "/" || path == p.Mountpoint || strings.HasPrefix(path, p.Mountpoint+"/")
		if under && len(p.Mountpoint) > len(best) {
			best, name = p.Mountpoint, p.Device
		}
	}
	return name
}

// Use is how full the file system of a directory is.
type Use struct {
	Device                         string
	Size, Used, Available          uint64
	UsedPercent, InodesUsedPercent float64
}

// DirUse tells how full the file system of a directory is.
func DirUse(ctx context.Context, dir string) (*Use, error) {
	u, err := disk.UsageWithContext(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("ask for the use of the disk of %s: %w", dir, err)
	}
	return &Use{
		Device: device(ctx, dir), Size: u.Total, Used: u.Used, Available: u.Free, UsedPercent: u.UsedPercent, InodesUsedPercent: u.InodesUsedPercent,
	}, nil
}

// DiskUsage tells how full the file system of a directory is, in percent of its
// bytes and of its inodes.
func DiskUsage(ctx context.Context, dir string) (used, inodes float64, err error) {
	u, err := disk.UsageWithContext(ctx, dir)
	if err != nil {
		return 0, 0, fmt.Errorf("ask for the use of the disk of %s: %w", dir, err)
	}
	return u.UsedPercent, u.InodesUsedPercent, nil
}
