// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/isolation"
)

// Cgroups are the machine's cgroup hierarchies: version 2, version 1, or a hybrid
// of version 1 with a version 2 hierarchy without controllers.
type Cgroups struct {
	// Unified is the mount point of cgroup v2, or "" if it is not mounted.
	Unified string
	// v1 maps each v1 controller that we use to its mount point.
	v1 map[string]string
	// v2 lists the controllers of the unified hierarchy.
	v2 []string
}

// parent is the name of the cgroup in each hierarchy that contains all of our
// cgroups.
const parent = "drover"

// controllers are the controllers that we use. cpuacct and devices exist only in v1, io
// only in v2: the blkio of v1 does not count what is written through the page cache. The
// freezer is one only in v1, and is used only where there is no v2, which has its own.
var controllers = []string{"cpu", "cpuset", "memory", "pids", "cpuacct", "devices", "io", freezer}

const freezer = "freezer"

// FindCgroups finds the mounted hierarchies.
func FindCgroups() (*Cgroups, error) {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("look for cgroups: %w", err)
	}
	c := &Cgroups{v1: map[string]string{}}
	for line := range strings.Lines(string(raw)) {
		before, after, ok := strings.Cut(line, " - ")
		mount, fs := strings.Fields(before), strings.Fields(after)
		if !ok || len(mount) < 5 || len(fs) < 3 || !strings.HasPrefix(mount[4], "/sys/fs/cgroup") {
			continue
		}
		switch fs[0] {
		case "cgroup2":
			if c.Unified == "" && unix.Access(mount[4], unix.W_OK) == nil {
				c.Unified = mount[4]
			}
		case "cgroup":
			for option := range strings.SplitSeq(fs[2], ",") {
				if slices.Contains(controllers, option) {
					c.v1[option] = mount[4]
				}
			}
		}
	}
	if c.Unified != "" {
		list, _ := os.ReadFile(filepath.Join(c.Unified, "cgroup.controllers")) // an unreadable file means no controllers
		c.v2 = strings.Fields(string(list))
		delete(c.v1, freezer)
	}
	return c, nil
}

// Missing says why cgroups cannot limit tasks on this machine. It returns "" if they
// can.
func (c *Cgroups) Missing() string {
	for _, name := range []string{"cpu", "memory"} {
		if c.v1[name] == "" && !slices.Contains(c.v2, name) {
			return fmt.Sprintf("the cgroup controller %q is not available; mount cgroups below /sys/fs/cgroup with it", name)
		}
	}
	return ""
}

// Group is the cgroup of one task. It has the same name in every hierarchy.
type Group struct {
	// Dir is its directory in the unified hierarchy, or "" if there is none.
	Dir string
	// dirs maps each controller to the group's directory.
	dirs map[string]string
}

// Open returns the group with this name, whether or not it exists.
func (c *Cgroups) Open(name string) *Group {
	g := &Group{dirs: map[string]string{}}
	if c.Unified != "" {
		g.Dir = filepath.Join(c.Unified, parent, name)
		for _, controller := range c.v2 {
			g.dirs[controller] = g.Dir
		}
	}
	for controller, mount := range c.v1 {
		g.dirs[controller] = filepath.Join(mount, parent, name)
	}
	return g
}

// Find returns the names of the groups that have the prefix.
func (c *Cgroups) Find(prefix string) []string {
	var names []string
	for _, dir := range c.Open(prefix + "*").Paths() {
		found, _ := filepath.Glob(dir) // the pattern is valid
		for _, f := range found {
			if name := filepath.Base(f); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// Sweep removes groups that were created before a time and have no processes. Such
// groups belong to tasks whose supervisor was killed and not restarted. It removes
// at most this many.
func (c *Cgroups) Sweep(before time.Time, most int) {
	for _, all := range c.Open("*").Paths() {
		entries, _ := os.ReadDir(filepath.Dir(all)) // an unreadable directory has nothing to remove
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || !e.IsDir() || info.ModTime().After(before) || !strings.Contains(e.Name(), ".") {
				continue
			}
			// The kernel refuses to remove a group that has processes.
			if RemoveTree(filepath.Join(filepath.Dir(all), e.Name())) == nil {
				most--
			}
			if most == 0 {
				return
			}
		}
	}
}

// Paths returns the group's directories, without duplicates.
func (g *Group) Paths() []string {
	var out []string
	if g.Dir != "" {
		out = append(out, g.Dir)
	}
	for _, controller := range controllers {
		if dir := g.dirs[controller]; dir != "" && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// Present returns the Paths that exist. A group that an older version of ours made may lack
// one.
func (g *Group) Present() []string {
	return slices.DeleteFunc(g.Paths(), func(dir string) bool {
		_, err := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist)
	})
}

// Limited returns the directories of the controllers whose limits can change while the
// task runs, by controller.
func (g *Group) Limited() map[string]string {
	return map[string]string{"cpu": g.dirs["cpu"], "memory": g.dirs["memory"]}
}

// Freezer returns the directory whose files pause the group, or "" if there is none.
func (g *Group) Freezer() string {
	if dir := g.dirs[freezer]; dir != "" {
		return dir
	}
	return g.Dir
}

// Make creates a group with its limits. The name must be new: the kernel kills
// processes that are started in a cgroup that was killed before.
func (c *Cgroups) Make(name string, limits Limits, devices []isolation.Device) (*Group, error) {
	g := c.Open(name)
	if err := c.prepare(g); err != nil {
		return nil, err
	}
	for _, dir := range g.Paths() {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, errors.Join(fmt.Errorf("make the task's cgroup: %w", err), g.Remove())
		}
	}
	// Tasks without cores of their own have one, too: JVMs look for the limit of their memory
	// only where they find all of cpu, cpuacct, cpuset and memory.
	if dir := g.dirs["cpuset"]; dir != "" && dir != g.Dir && len(limits.Cores) == 0 {
		if err := fillCpuset(dir); err != nil {
			return nil, errors.Join(err, g.Remove())
		}
	}
	for _, s := range g.settings(limits) {
		dir := g.dirs[s.controller]
		if dir == "" && s.optional {
			continue
		}
		if dir == "" {
			return nil, errors.Join(fmt.Errorf("limit the task: the cgroup controller %q is not available on this machine", s.controller), g.Remove())
		}
		err := os.WriteFile(filepath.Join(dir, s.file), []byte(s.value), 0)
		if err != nil && !s.optional {
			return nil, errors.Join(fmt.Errorf("limit the task: write %q to %s: %w; the machine's kernel must offer it, and the value must suit the machine", s.value, filepath.Join(dir, s.file), err), g.Remove())
		}
	}
	if err := isolation.LimitDevices(g.Paths(), devices); err != nil {
		return nil, errors.Join(err, g.Remove())
	}
	return g, nil
}

// prepare creates and configures the parent of all groups.
func (c *Cgroups) prepare(g *Group) error {
	for _, dir := range g.Paths() {
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			return fmt.Errorf("make the cgroup of all tasks: %w", err)
		}
	}
	for _, controller := range []string{"cpu", "memory", "cpuset", "pids", "io"} {
		if !slices.Contains(c.v2, controller) {
			continue
		}
		for _, dir := range []string{c.Unified, filepath.Join(c.Unified, parent)} {
			file := filepath.Join(dir, "cgroup.subtree_control")
			have, err := os.ReadFile(file)
			if err == nil && slices.Contains(strings.Fields(string(have)), controller) {
				continue
			}
			if err := os.WriteFile(file, []byte("+"+controller), 0); err != nil {
				return fmt.Errorf("turn on the cgroup controller %s in %s: %w; a cgroup that contains processes cannot delegate it", controller, dir, err)
			}
		}
	}
	if dir := g.dirs["cpuset"]; dir != "" && dir != g.Dir {
		return fillCpuset(filepath.Dir(dir))
	}
	return nil
}

// fillCpuset copies the parent's values to a v1 cpuset. A new cpuset is empty, and
// no process can run in it.
func fillCpuset(dir string) error {
	for _, file := range []string{"cpuset.mems", "cpuset.cpus"} {
		have, err := os.ReadFile(filepath.Join(dir, file))
		if err == nil && strings.TrimSpace(string(have)) != "" {
			continue
		}
		above, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), above, 0)
		}
		if err != nil {
			return fmt.Errorf("give the cgroup %s the cores of the one above: %w", dir, err)
		}
	}
	return nil
}

// setting is a value to write to a file of the cgroup.
type setting struct {
	controller, file, value string
	optional                bool
}

func (g *Group) settings(l Limits) []setting {
	var out []setting
	set := func(controller, file, value string) {
		out = append(out, setting{controller: controller, file: file, value: value})
	}
	try := func(controller, file, value string) {
		out = append(out, setting{controller: controller, file: file, value: value, optional: true})
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	v2 := func(controller string) bool { return g.dirs[controller] == g.Dir && g.Dir != "" }

	if l.MemoryMax > 0 && v2("memory") {
		set("memory", "memory.max", number(l.MemoryMax))
		try("memory", "memory.swap.max", "0")
		if l.MemoryLow > 0 {
			try("memory", "memory.low", number(l.MemoryLow))
		}
	} else if l.MemoryMax > 0 {
		set("memory", "memory.limit_in_bytes", number(l.MemoryMax))
		try("memory", "memory.memsw.limit_in_bytes", number(l.MemoryMax))
		try("memory", "memory.swappiness", "0")
		if l.MemoryLow > 0 {
			try("memory", "memory.soft_limit_in_bytes", number(l.MemoryLow))
		}
	}
	if shares := min(max(l.CPUShares, 2), 262144); l.CPUShares > 0 && v2("cpu") {
		set("cpu", "cpu.weight", number(1+(shares-2)*9999/262142))
	} else if l.CPUShares > 0 {
		set("cpu", "cpu.shares", number(shares))
	}
	if len(l.Cores) > 0 {
		if !v2("cpuset") {
			mems, _ := os.ReadFile(filepath.Join(filepath.Dir(g.dirs["cpuset"]), "cpuset.mems")) // if it cannot be read, writing the empty value reports an error
			set("cpuset", "cpuset.mems", strings.TrimSpace(string(mems)))
		}
		set("cpuset", "cpuset.cpus", coreList(l.Cores))
	} else if len(l.Shared) > 0 {
		try("cpuset", "cpuset.cpus", coreList(l.Shared))
	}
	if l.Pids > 0 && g.dirs["pids"] != "" {
		set("pids", "pids.max", number(l.Pids))
	}
	return out
}

// BindCores assigns cores to a v2 cgroup. If the cgroup has no cpuset controller, it
// does nothing: a process that is forked into it keeps its cores.
func BindCores(dir string, cores []int) error {
	if len(cores) == 0 || !HasCores(dir) {
		return nil
	}
	return writeCores(dir, cores)
}

func coreList(cores []int) string {
	text := make([]string, len(cores))
	for i, c := range cores {
		text[i] = strconv.Itoa(c)
	}
	return strings.Join(text, ",")
}

// Kill kills every process in the group, regardless of its session or namespace.
func (g *Group) Kill() {
	if g.Dir != "" && os.WriteFile(filepath.Join(g.Dir, "cgroup.kill"), []byte("1"), 0) == nil {
		return
	}
	for _, pid := range g.PIDs() { // before Linux 5.14
		_ = unix.Kill(pid, unix.SIGKILL) // an error means that it has ended
	}
	if dir := g.dirs[freezer]; dir != "" {
		// In v1, a process that is paused ends only once it continues.
		_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0) // an error means that the group is gone
	}
}

// PIDs returns the processes in the group except this one: a thread of ours that has
// started a process in the group is listed there as our own pid until the thread
// ends.
func (g *Group) PIDs() []int {
	for _, dir := range g.Paths() {
		if pids, err := pidsIn(dir); err == nil {
			return pids
		}
	}
	return nil
}

// pidsIn returns the processes in the group of a directory and in those below it, except this
// one.
func pidsIn(dir string) ([]int, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for line := range strings.Lines(string(raw)) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	for _, below := range groupsBelow(dir) {
		more, _ := pidsIn(below) // it may be gone
		pids = append(pids, more...)
	}
	return pids, nil
}

// groupsBelow returns the directories of the groups directly below one.
func groupsBelow(dir string) (out []string) {
	entries, _ := os.ReadDir(dir) // what cannot be read has none
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out
}

// RemoveTree removes a group with those below it, which commands beside a task have and
// which a task may make. The kernel refuses with EBUSY while one of them has a process.
func RemoveTree(dir string) error {
	err := unix.Rmdir(dir)
	if err != unix.EBUSY {
		return err
	}
	for _, below := range groupsBelow(dir) {
		_ = RemoveTree(below) // the error of the last step says it
	}
	return unix.Rmdir(dir)
}

// Remove removes the group's directories. EBUSY means that a process is still
// ending.
func (g *Group) Remove() error {
	var errs []error
	for _, dir := range g.Paths() {
		if err := RemoveTree(dir); err != nil && err != unix.ENOENT {
			errs = append(errs, fmt.Errorf("remove the cgroup %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}

// OOMKills returns the number of processes of the group that the OOM killer has
// killed because the group exceeded its memory limit.
func (g *Group) OOMKills() uint64 {
	dir := g.dirs["memory"]
	if dir == "" {
		return 0
	}
	for _, file := range []string{"memory.events", "memory.oom_control"} {
		if n, ok := field(filepath.Join(dir, file), "oom_kill"); ok {
			return n
		}
	}
	return 0
}
