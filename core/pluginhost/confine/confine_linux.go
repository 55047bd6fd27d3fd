// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Groups are the places where this process may create cgroups.
type Groups struct {
	v1 map[string]place // by controller
	v2 *place           // nil if version 2 is not mounted
}

// place is a hierarchy: its mount point, and this process's cgroup in it.
type place struct{ mount, own string }

// Find detects the hierarchies of the machine.
func Find() (*Groups, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("look for cgroups: %w", err)
	}
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("look for cgroups: %w", err)
	}
	return Parse(string(mounts), string(self)), nil
}

// Parse parses the contents of /proc/self/mountinfo and /proc/self/cgroup.
func Parse(mountinfo, self string) *Groups {
	own := map[string]string{} // by controller; "" is version 2
	for line := range strings.Lines(self) {
		if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); len(parts) == 3 {
			for controller := range strings.SplitSeq(parts[1], ",") {
				own[controller] = parts[2]
			}
		}
	}
	g := &Groups{v1: map[string]place{}}
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		mount, fs := strings.Fields(before), strings.Fields(after)
		if !ok || len(mount) < 5 || len(fs) < 3 {
			continue
		}
		// A container may see only a part of a hierarchy, mount[3].
		at := func(controller string) place {
			return place{mount: mount[4], own: strings.TrimPrefix(own[controller], strings.TrimSuffix(mount[3], "/"))}
		}
		switch fs[0] {
		case "cgroup2":
			if g.v2 == nil {
				p := at("")
				g.v2 = &p
			}
		case "cgroup":
			for option := range strings.SplitSeq(fs[2], ",") {
				if option == "pids" || option == "memory" {
					g.v1[option] = at(option)
				}
			}
		}
	}
	return g
}

// setting is one limit in the notations of both versions.
type setting struct {
	controller string
	fileV1     string
	fileV2     string
	value      string // "" is no limit
}

func (l Limits) settings() []setting {
	pids := setting{controller: "pids", fileV1: "pids.max", fileV2: "pids.max"}
	if l.Pids > 0 {
		pids.value = strconv.Itoa(l.Pids)
	}
	memory := setting{controller: "memory", fileV1: "memory.limit_in_bytes", fileV2: "memory.max"}
	if l.MemoryMB > 0 {
		memory.value = strconv.FormatInt(int64(l.MemoryMB)<<20, 10)
	}
	return []setting{pids, memory}
}

// Put creates a cgroup with the name and the limits and moves the process into it.
// Existing children of the process stay where they are. FailedPrecondition: the limits
// cannot be set here.
func (g *Groups) Put(name string, pid int, limits Limits) error {
	dirs, err := g.prepare(name, limits)
	if err != nil {
		return err
	}
	for _, dir := range dirs.all() {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return cannot(name, err)
		}
	}
	return nil
}

// prepared has the directories of one cgroup in the hierarchies that limit it.
type prepared struct {
	v1 []string
	v2 string // "" if version 2 limits nothing
}

func (p prepared) all() []string {
	if p.v2 == "" {
		return p.v1
	}
	return append(p.v1, p.v2)
}

// prepare creates a cgroup and sets its limits.
func (g *Groups) prepare(name string, limits Limits) (out prepared, err error) {
	var v2 []setting
	for _, s := range limits.settings() {
		p, ok := g.v1[s.controller]
		if !ok {
			v2 = append(v2, s)
			continue
		}
		dir, err := p.prepareV1(name, s)
		if err != nil {
			return out, err
		}
		if dir != "" {
			out.v1 = append(out.v1, dir)
		}
	}
	v2 = slices.DeleteFunc(v2, func(s setting) bool { return s.value == "" })
	if len(v2) == 0 {
		return out, nil
	}
	if g.v2 == nil {
		return out, errdefs.FailedPreconditionf("limit plugin %q: no cgroup controller %q is mounted on this machine", name, v2[0].controller)
	}
	out.v2, err = g.v2.prepareV2(name, v2)
	return out, err
}

// prepareV1 sets one limit in the hierarchy of its controller. It returns "" if no limit is
// wanted and none was set before.
func (p place) prepareV1(name string, s setting) (dir string, err error) {
	dir = filepath.Join(p.mount, p.own, parent, name)
	value := s.value
	if value == "" {
		if _, err := os.Stat(dir); err != nil {
			return "", nil
		}
		value = map[string]string{"pids": "max", "memory": "-1"}[s.controller]
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", cannot(name, err)
	}
	return dir, fill(name, dir, s.fileV1, value)
}

// prepareV2 sets all limits in the unified hierarchy: below this process's cgroup if
// that may delegate controllers, otherwise below the root, which always may.
func (p place) prepareV2(name string, settings []setting) (dir string, err error) {
	var failed error
	for _, base := range slices.Compact([]string{filepath.Join(p.mount, p.own), p.mount}) {
		err := passOn(base, settings)
		if err == nil {
			err = passOn(filepath.Join(base, parent), settings)
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		dir := filepath.Join(base, parent, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", cannot(name, err)
		}
		for _, s := range settings {
			if err := fill(name, dir, s.fileV2, s.value); err != nil {
				return "", err
			}
		}
		return dir, nil
	}
	return "", cannot(name, failed)
}

// passOn enables the controllers for the children of a cgroup.
func passOn(dir string, settings []setting) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file := filepath.Join(dir, "cgroup.subtree_control")
	have, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, s := range settings {
		if slices.Contains(strings.Fields(string(have)), s.controller) {
			continue
		}
		if err := os.WriteFile(file, []byte("+"+s.controller), 0); err != nil {
			return err
		}
	}
	return nil
}

// fill writes a limit.
func fill(name, dir, file, value string) error {
	if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
		return cannot(name, err)
	}
	return nil
}

func cannot(name string, err error) error {
	return errdefs.FailedPreconditionf("limit plugin %q: %w; the agent needs to write to cgroups for that", name, err)
}

// dirs returns the possible directories of a cgroup.
func (g *Groups) dirs(name string) []string {
	var out []string
	add := func(p place) {
		for _, base := range []string{p.own, ""} {
			out = append(out, filepath.Join(p.mount, base, parent, name))
		}
	}
	for _, p := range g.v1 {
		add(p)
	}
	if g.v2 != nil {
		add(*g.v2)
	}
	return out
}

// Remove removes the cgroup of an ended process and reports whether nothing of it is left.
// A cgroup with processes stays, because they are not processes of the plugin itself.
func (g *Groups) Remove(name string) bool {
	gone := true
	for _, dir := range g.dirs(name) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			gone = false // the kernel rejects it while there are processes
		}
	}
	return gone
}

// Sweep removes cgroups that were created before a time and have no processes, which
// agents that were killed have left. It checks at most the given number.
func (g *Groups) Sweep(before time.Time, most int) {
	for _, all := range g.dirs("*") {
		entries, _ := os.ReadDir(filepath.Dir(all)) // most are not there
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || !e.IsDir() || info.ModTime().After(before) {
				continue
			}
			if most--; most < 0 {
				return
			}
			_ = os.Remove(filepath.Join(filepath.Dir(all), e.Name())) // the kernel refuses it where there is a process
		}
	}
}

// OOMKills returns how many processes of the group the kernel has killed for memory.
func (g *Groups) OOMKills(name string) int {
	sum := 0
	for _, dir := range g.dirs(name) {
		for _, file := range []string{"memory.oom_control", "memory.events"} {
			raw, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(raw)) {
				if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
					count, _ := strconv.Atoi(n) // the kernel writes a number
					sum += count
				}
			}
		}
	}
	return sum
}
