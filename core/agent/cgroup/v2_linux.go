// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// v2 is the tree on cgroups of version 2.
type v2 struct{ root string }

// controllers are passed on to the tasks' groups.
var controllers = []string{"cpuset", "cpu", "io", "memory", "pids"}

const scope = ".scope"

func (*v2) version() int  { return 2 }
func (v *v2) top() string { return filepath.Join(v.root, "nomad.slice") }

// slice returns the slice of the tasks that reserve cores, or of the tasks that do not.
func (v *v2) slice(reserve bool) string {
	if reserve {
		return filepath.Join(v.top(), "reserve.slice")
	}
	return filepath.Join(v.top(), "share.slice")
}

func (v *v2) missing() error {
	have, err := read(v.root, "cgroup.controllers")
	if err != nil {
		return err
	}
	for _, c := range controllers {
		if !slices.Contains(strings.Fields(have), c) {
			return errdefs.FailedPreconditionf("the cgroup at %s lacks the controller %q; let the machine, or the container that the agent runs in, pass it on", v.root, c)
		}
	}
	return nil
}

func (v *v2) setUp([]int) error {
	for _, dir := range []string{v.root, v.top(), v.slice(false), v.slice(true)} {
		if err := mkdir(dir); err != nil {
			return err
		}
		have, err := read(dir, "cgroup.subtree_control")
		if err != nil {
			return err
		}
		var lacks []string
		for _, c := range controllers {
			if !slices.Contains(strings.Fields(have), c) {
				lacks = append(lacks, "+"+c)
			}
		}
		if len(lacks) == 0 {
			continue
		}
		if err := write(dir, "cgroup.subtree_control", strings.Join(lacks, " ")); err != nil {
			return fmt.Errorf("%w; a cgroup that has processes cannot pass controllers on", err)
		}
	}
	return nil
}

func (v *v2) setCores(share, reserve []int) error {
	if err := setCores(v.slice(true), reserve); err != nil {
		return err
	}
	return setCores(v.slice(false), share)
}

func (v *v2) reserved() ([]int, error) { return coresBelow(v.slice(true)) }

func (v *v2) make(name string, cores []int, limits *Limits) (map[string]string, error) {
	dir := filepath.Join(v.slice(len(cores) > 0), name+scope)
	if err := mkdir(dir); err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for _, c := range controllers {
		dirs[c] = dir
	}
	if len(cores) > 0 {
		if err := write(dir, "cpuset.cpus", format(cores)); err != nil {
			return nil, err
		}
	}
	if limits == nil {
		return dirs, nil
	}
	return dirs, v.limit(dir, limits)
}

func (v *v2) limit(dir string, l *Limits) error {
	if l.MemoryBytes > 0 {
		if err := write(dir, "memory.max", strconv.FormatInt(l.MemoryBytes, 10)); err != nil {
			return err
		}
		// Machines without swap lack this file.
		_ = write(dir, "memory.swap.max", "0")
	}
	if l.MemoryLowBytes > 0 {
		if err := write(dir, "memory.low", strconv.FormatInt(l.MemoryLowBytes, 10)); err != nil {
			return err
		}
	}
	if l.CPUShares > 0 {
		weight := 1 + (clampShares(l.CPUShares)-2)*9999/262142
		return write(dir, "cpu.weight", strconv.FormatInt(weight, 10))
	}
	return nil
}

func (v *v2) dirs(name string) []string {
	return slices.Compact([]string{v.dirOf(name), filepath.Join(v.slice(false), name+scope)})
}

// dirOf returns the directory of a task, in whichever slice it is.
func (v *v2) dirOf(name string) string {
	if dir := filepath.Join(v.slice(true), name+scope); isDir(dir) {
		return dir
	}
	return filepath.Join(v.slice(false), name+scope)
}

func (v *v2) names() []string {
	var out []string
	for _, reserve := range []bool{false, true} {
		for _, child := range children(v.slice(reserve)) {
			if name, ok := strings.CutSuffix(child, scope); ok {
				out = append(out, name)
			}
		}
	}
	return out
}

func (v *v2) freeze(name string, stop bool) {
	state := "0"
	if stop {
		state = "1"
	}
	_ = write(v.dirOf(name), "cgroup.freeze", state) // it may be gone
}
