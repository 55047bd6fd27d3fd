// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// field returns the value for a name in a file of lines "name value".
func field(file, name string) (uint64, bool) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, ok := fields(string(raw))[name]
	return n, ok
}

func fields(text string) map[string]uint64 {
	out := map[string]uint64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			out[name] = n
		}
	}
	return out
}

func number(file string) uint64 {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0 // not available
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 64) // "max" yields 0
	return n
}

func allFields(file string) map[string]uint64 {
	raw, _ := os.ReadFile(file) // a missing file yields 0
	return fields(string(raw))
}

// Usage returns the group's resource usage. Values that the kernel does not provide
// are zero.
func (g *Group) Usage() Usage {
	u := Usage{PIDs: g.PIDs(), IO: g.io()}
	if dir := g.dirs["memory"]; dir == g.Dir {
		u.unifiedMemory(dir)
	} else {
		u.legacyMemory(dir)
	}
	cpu := allFields(filepath.Join(g.dirs["cpu"], "cpu.stat"))
	u.ThrottledPeriods = cpu["nr_throttled"]
	u.ThrottledTime = time.Duration(cpu["throttled_usec"])*time.Microsecond + time.Duration(cpu["throttled_time"])
	if g.Dir != "" { // available even without the controller
		cpu = allFields(filepath.Join(g.Dir, "cpu.stat"))
		u.User, u.System = time.Duration(cpu["user_usec"])*time.Microsecond, time.Duration(cpu["system_usec"])*time.Microsecond
	} else {
		u.User = time.Duration(number(filepath.Join(g.dirs["cpuacct"], "cpuacct.usage_user")))
		u.System = time.Duration(number(filepath.Join(g.dirs["cpuacct"], "cpuacct.usage_sys")))
	}
	return u
}

func (u *Usage) unifiedMemory(dir string) {
	stat := allFields(filepath.Join(dir, "memory.stat"))
	u.Memory = number(filepath.Join(dir, "memory.current"))
	u.MaxMemory = number(filepath.Join(dir, "memory.peak")) // since Linux 5.19
	u.Swap = number(filepath.Join(dir, "memory.swap.current"))
	u.RSS, u.Cache, u.MappedFile, u.Kernel = stat["anon"], stat["file"], stat["file_mapped"], stat["kernel"]
}

func (u *Usage) legacyMemory(dir string) {
	stat := allFields(filepath.Join(dir, "memory.stat"))
	u.Memory = number(filepath.Join(dir, "memory.usage_in_bytes"))
	u.MaxMemory = number(filepath.Join(dir, "memory.max_usage_in_bytes"))
	u.Kernel = number(filepath.Join(dir, "memory.kmem.usage_in_bytes"))
	u.RSS, u.Cache, u.MappedFile, u.Swap = stat["rss"], stat["cache"], stat["mapped_file"], stat["swap"]
}

// io returns the group's input and output on block devices, or nil if the kernel does
// not count it.
func (g *Group) io() *IO {
	dir := g.dirs["io"]
	if dir == "" {
		return nil
	}
	raw, err := os.ReadFile(filepath.Join(dir, "io.stat"))
	if err != nil {
		return nil
	}
	return sumIO(string(raw))
}

// sumIO adds up the lines of an io.stat, such as
// "254:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0".
func sumIO(text string) *IO {
	u := &IO{}
	for field := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(field, "=")
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			continue // the number of the device
		}
		switch name {
		case "rbytes":
			u.ReadBytes += n
		case "wbytes":
			u.WrittenBytes += n
		case "rios":
			u.Reads += n
		case "wios":
			u.Writes += n
		}
	}
	return u
}
