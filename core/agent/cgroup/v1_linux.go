// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
)

// v1 is the tree on cgroups of version 1.
type v1 struct{ root string }

// perTask are the controllers in which each task has a group. The first one carries the
// owner's mark.
var perTask = []string{"freezer", "cpu", "memory"}

func (*v1) version() int  { return 1 }
func (v *v1) top() string { return v.dir("cpuset") }

func (v *v1) dir(controller string, more ...string) string {
	return filepath.Join(append([]string{v.root, controller, "nomad"}, more...)...)
}

func (v *v1) missing() error {
	for _, controller := range append(slices.Clone(perTask), "cpuset") {
		if !isDir(filepath.Join(v.root, controller)) {
			return errdefs.FailedPreconditionf("the cgroup controller %q is not mounted at %s; mount it there", controller, filepath.Join(v.root, controller))
		}
	}
	return nil
}

func (v *v1) setUp(cores []int) error {
	for _, controller := range perTask {
		if err := mkdir(v.dir(controller)); err != nil {
			return err
		}
	}
	top := v.dir("cpuset")
	if err := mkdir(top); err != nil {
		return err
	}
	if err := set(top, "cgroup.clone_children", "0"); err != nil {
		return err
	}
	mems, err := read(filepath.Join(v.root, "cpuset"), "cpuset.mems")
	if err != nil {
		return err
	}
	if err := set(top, "cpuset.mems", mems); err != nil {
		return err
	}
	have, err := coresOf(top)
	if err != nil {
		return err
	}
	// Another agent may use other cores.
	all := append(have, cores...)
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != len(have) {
		if err := write(top, "cpuset.cpus", format(all)); err != nil {
			return err
		}
	}
	for _, part := range []string{"share", "reserve"} {
		if err := mkdir(v.dir("cpuset", part)); err != nil {
			return err
		}
		if err := set(v.dir("cpuset", part), "cpuset.mems", mems); err != nil {
			return err
		}
	}
	return nil
}

// set writes a value unless it is there: a group with tasks may refuse to be written.
func set(dir, file, value string) error {
	if have, err := read(dir, file); err == nil && have == value {
		return nil
	}
	return write(dir, file, value)
}

func coresOf(dir string) ([]int, error) {
	text, err := read(dir, "cpuset.cpus")
	if err != nil {
		return nil, err
	}
	return parse(text)
}

func (v *v1) setCores(share, reserve []int) error {
	if err := setCores(v.dir("cpuset", "reserve"), reserve); err != nil {
		return err
	}
	return setCores(v.dir("cpuset", "share"), share)
}

// setCores sets the cores of a group unless it has them.
func setCores(dir string, cores []int) error {
	have, err := coresOf(dir)
	if err == nil && slices.Equal(have, cores) {
		return nil
	}
	return write(dir, "cpuset.cpus", format(cores)+"\n") // an empty write would change nothing
}

func (v *v1) reserved() ([]int, error) { return coresBelow(v.dir("cpuset", "reserve")) }

// coresBelow are the cores of the groups in a directory.
func coresBelow(dir string) ([]int, error) {
	var out []int
	for _, name := range children(dir) {
		cores, err := coresOf(filepath.Join(dir, name))
		if err != nil {
			continue // it was removed meanwhile
		}
		out = append(out, cores...)
	}
	return out, nil
}

func (v *v1) make(name string, cores []int, limits *Limits) (map[string]string, error) {
	dirs := map[string]string{"cpuset": v.dir("cpuset", "share")}
	for _, controller := range perTask {
		dirs[controller] = v.dir(controller, name)
		if err := mkdir(dirs[controller]); err != nil {
			return nil, err
		}
	}
	if len(cores) > 0 {
		dirs["cpuset"] = v.dir("cpuset", "reserve", name)
		if err := v.reserve(dirs["cpuset"], cores); err != nil {
			return nil, err
		}
	}
	if limits == nil {
		return dirs, nil
	}
	return dirs, v.limit(dirs, limits)
}

// reserve makes the group of a task with cores.
func (v *v1) reserve(dir string, cores []int) error {
	mems, err := read(v.dir("cpuset"), "cpuset.mems")
	if err != nil {
		return err
	}
	if err := mkdir(dir); err != nil {
		return err
	}
	if err := write(dir, "cpuset.mems", mems); err != nil {
		return err
	}
	if err := write(dir, "cpuset.cpus", format(cores)); err != nil {
		return fmt.Errorf("%w; the cores must be among those that the agent may use", err)
	}
	return nil
}

func (v *v1) limit(dirs map[string]string, l *Limits) error {
	if l.MemoryBytes > 0 {
		if err := write(dirs["memory"], "memory.limit_in_bytes", strconv.FormatInt(l.MemoryBytes, 10)); err != nil {
			return err
		}
		// Machines without accounting of swap lack this file.
		_ = write(dirs["memory"], "memory.memsw.limit_in_bytes", strconv.FormatInt(l.MemoryBytes, 10))
	}
	if l.MemoryLowBytes > 0 {
		if err := write(dirs["memory"], "memory.soft_limit_in_bytes", strconv.FormatInt(l.MemoryLowBytes, 10)); err != nil {
			return err
		}
	}
	if l.CPUShares > 0 {
		return write(dirs["cpu"], "cpu.shares", strconv.FormatInt(clampShares(l.CPUShares), 10))
	}
	return nil
}

// clampShares brings shares into the kernel's range.
func clampShares(n int64) int64 { return min(max(n, 2), 262144) }

func (v *v1) dirs(name string) []string {
	var out []string
	for _, controller := range perTask {
		out = append(out, v.dir(controller, name))
	}
	return append(out, v.dir("cpuset", "reserve", name))
}

func (v *v1) names() []string {
	var out []string
	for _, controller := range perTask {
		out = append(out, children(v.dir(controller))...)
	}
	slices.Sort(out)
	return slices.Compact(append(out, children(v.dir("cpuset", "reserve"))...))
}

// freezeLimit bounds the wait until all processes of a group have stopped. A process that
// waits for a disk does not stop; it is killed anyway.
const freezeLimit = 500 * time.Millisecond

func (v *v1) freeze(name string, stop bool) {
	dir := v.dir("freezer", name)
	if !stop {
		_ = write(dir, "freezer.state", "THAWED") // it may be gone
		return
	}
	if write(dir, "freezer.state", "FROZEN") != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), freezeLimit)
	defer cancel()
	for {
		if state, err := read(dir, "freezer.state"); err != nil || state == "FROZEN" || sleep.For(ctx, poll) != nil {
			return
		}
	}
}
