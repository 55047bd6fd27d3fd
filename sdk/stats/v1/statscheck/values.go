// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package statscheck

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	stats "github.com/drover-project/drover/sdk/stats/v1"
)

// present returns the parts that a sample contains.
func present(s stats.Sample) map[stats.Part]bool {
	return map[stats.Part]bool{
		stats.PartCPU: s.CPU != nil, stats.PartMemory: s.Memory != nil, stats.PartSwap: s.Swap != nil, stats.PartFileSystems: len(s.FileSystems) > 0,
		stats.PartDisks: len(s.Disks) > 0, stats.PartNetworks: len(s.Networks) > 0, stats.PartTemperatures: len(s.Temperatures) > 0,
		stats.PartLoad: s.Load != nil, stats.PartUptime: s.Uptime > 0,
	}
}

func excused(s stats.Sample, name string) bool {
	return slices.ContainsFunc(s.Problems, func(p string) bool { return strings.HasPrefix(p, name+": ") && len(p) > len(name)+2 })
}

func checkComplete(b *bench) {
	info := b.c.Info()
	_, s := b.two()
	for part, there := range present(s) {
		switch named := slices.Contains(info.Parts, part); {
		case there && !named:
			b.t.Errorf("the sample has the part %q, which Info does not name", part)
		case named && !there && !excused(s, string(part)):
			b.t.Errorf("the sample lacks the part %q and no problem %q says why", part, string(part)+": ...")
		}
	}
	told := map[string]bool{}
	for _, v := range s.Values {
		told[v.Series] = true
		i := slices.IndexFunc(info.Series, func(x stats.Series) bool { return x.Name == v.Series })
		if i < 0 {
			b.t.Errorf("the sample has a value of the series %q, which Info does not name", v.Series)
			continue
		}
		want, got := slices.Sorted(slices.Values(info.Series[i].Labels)), slices.Sorted(maps.Keys(v.Labels))
		if !slices.Equal(want, got) {
			b.t.Errorf("a value of the series %q has the labels %q, want %q", v.Series, got, want)
		}
	}
	for _, x := range info.Series {
		if !told[x.Name] && !excused(s, x.Name) {
			b.t.Errorf("the sample lacks the series %q and no problem %q says why", x.Name, x.Name+": ...")
		}
	}
}

// sound records a problem if v cannot be a measurement.
func (b *bench) sound(what string, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		b.t.Errorf("%s is %v", what, v)
	}
}

// within records a problem if a part is larger than its whole.
func (b *bench) within(what string, part, whole uint64) {
	if part > whole {
		b.t.Errorf("%s is %d of %d", what, part, whole)
	}
}

func checkValues(b *bench) {
	_, s := b.two()
	if s.CPU != nil {
		for _, c := range append(slices.Clone(s.CPU.Cores), s.CPU.Total) {
			for _, v := range []float64{c.User, c.Nice, c.System, c.Idle, c.IOWait, c.IRQ, c.SoftIRQ, c.Steal} {
				b.sound("a time of "+c.Name, v)
			}
			if c.Name == "" || c.Sum() == 0 {
				b.t.Errorf("the core %q has no name or no time has passed for it", c.Name)
			}
		}
		if len(s.CPU.Cores) == 0 {
			b.t.Errorf("cpu: no core")
		}
	}
	if m := s.Memory; m != nil {
		b.within("available memory", m.Available, m.Total)
		b.within("used memory", m.Used, m.Total)
		b.within("free memory", m.Free, m.Total)
	}
	if w := s.Swap; w != nil {
		b.within("used swap", w.Used, w.Total)
	}
	for _, f := range s.FileSystems {
		if f.Mountpoint == "" || f.Size == 0 {
			b.t.Errorf("file system %+v: its mount point is empty or its size zero", f)
		}
		b.within("used of "+f.Mountpoint, f.Used, f.Size)
		b.within("available of "+f.Mountpoint, f.Available, f.Size)
		b.within("inodes of "+f.Mountpoint, f.InodesUsed, f.Inodes)
	}
	for _, t := range s.Temperatures {
		if math.IsNaN(t.Celsius) || t.Celsius < -273.15 || t.Celsius > 1000 {
			b.t.Errorf("sensor %s tells %v degrees Celsius", t.Sensor, t.Celsius)
		}
	}
	if l := s.Load; l != nil {
		for _, v := range []float64{l.One, l.Five, l.Fifteen} {
			b.sound("a load", v)
		}
	}
	for _, v := range s.Values {
		if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
			b.t.Errorf("a value of %s is %v", v.Series, v.Value)
		}
	}
	info := b.c.Info()
	for _, v := range s.Values {
		checkObserved(b, info, v)
	}
	b.sound("uptime", s.Uptime.Seconds())
}

// checkObserved checks that histograms, and no other series, have counts, one for each
// bucket.
func checkObserved(b *bench, info stats.Info, v stats.Value) {
	i := slices.IndexFunc(info.Series, func(x stats.Series) bool { return x.Name == v.Series })
	if i < 0 {
		return // another check says so
	}
	x, o := info.Series[i], v.Observed
	switch {
	case x.Kind != stats.Histogram && o != nil:
		b.t.Errorf("a value of %s, which is no histogram, has counts", v.Series)
	case x.Kind != stats.Histogram:
	case o == nil:
		b.t.Errorf("a value of the histogram %s has no counts", v.Series)
	case len(o.Counts) != len(x.Bounds)+1:
		b.t.Errorf("a value of the histogram %s has %d counts for %d bounds; want one more than bounds", v.Series, len(o.Counts), len(x.Bounds))
	case math.IsNaN(o.Sum) || math.IsInf(o.Sum, 0) || o.Count() == 0 && o.Sum != 0:
		b.t.Errorf("the sum of the histogram %s is %v with %d observations", v.Series, o.Sum, o.Count())
	}
}

// names returns the names of the parts and series in a sample.
func names(s stats.Sample) []string {
	var out []string
	if s.CPU != nil {
		for _, c := range s.CPU.Cores {
			out = append(out, "core "+c.Name)
		}
	}
	for _, f := range s.FileSystems {
		out = append(out, "file system "+f.Mountpoint)
	}
	for _, d := range s.Disks {
		out = append(out, "disk "+d.Device)
	}
	for _, n := range s.Networks {
		out = append(out, "interface "+n.Interface)
	}
	for _, t := range s.Temperatures {
		out = append(out, "sensor "+t.Sensor)
	}
	for _, v := range s.Values {
		out = append(out, valueName(v))
	}
	slices.Sort(out)
	return out
}

func valueName(v stats.Value) string {
	name := fmt.Sprintf("value of %s%v", v.Series, v.Labels)
	if v.Task != "" {
		name += " of task " + v.Task
	}
	return name
}

func checkNamedOnce(b *bench) {
	_, s := b.two()
	list := names(s)
	for i := 1; i < len(list); i++ {
		if list[i] == list[i-1] {
			b.t.Errorf("%s is told twice", list[i])
		}
	}
}

// counted returns all counters of a sample by name.
func counted(info stats.Info, s stats.Sample) map[string]float64 {
	out := map[string]float64{"uptime": s.Uptime.Seconds()}
	if s.CPU != nil {
		for _, c := range append(slices.Clone(s.CPU.Cores), s.CPU.Total) {
			out[c.Name+" user"], out[c.Name+" system"], out[c.Name+" sum"] = c.User, c.System, c.Sum()
		}
	}
	if w := s.Swap; w != nil {
		out["swap in"], out["swap out"] = float64(w.In), float64(w.Out)
	}
	for _, d := range s.Disks {
		out[d.Device+" reads"], out[d.Device+" writes"] = float64(d.Reads), float64(d.Writes)
		out[d.Device+" read bytes"], out[d.Device+" written bytes"] = float64(d.ReadBytes), float64(d.WrittenBytes)
	}
	for _, n := range s.Networks {
		out[n.Interface+" received bytes"], out[n.Interface+" sent bytes"] = float64(n.ReceivedBytes), float64(n.SentBytes)
	}
	for _, v := range s.Values {
		if slices.ContainsFunc(info.Series, func(x stats.Series) bool { return x.Name == v.Series && x.Kind == stats.Counter }) {
			out[valueName(v)] = v.Value
		}
		if v.Observed != nil {
			for i, n := range v.Observed.Counts {
				out[fmt.Sprintf("%s, bucket %d", valueName(v), i)] = float64(n)
			}
		}
	}
	return out
}

// tick is by how many seconds the sum of a core's times may seem to go back: the kernel
// reports them separately and not all at the same moment.
const tick = 0.05

func checkCounters(b *bench) {
	first, second := b.two()
	info := b.c.Info()
	later := counted(info, second)
	for name, v := range counted(info, first) {
		if now, ok := later[name]; ok && now < v-tick {
			b.t.Errorf("%s was %v and is %v", name, v, now)
		}
	}
}
