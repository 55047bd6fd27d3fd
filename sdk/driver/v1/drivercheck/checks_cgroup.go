// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// cgroupChecks are the rules of drivers that ask for a cgroup of the host.
var cgroupChecks = []Check{
	{"host-cgroup", "the processes of a task are in the cgroup that the host has made for it, and nothing else is", wantsCgroup, checkHostCgroup},
}

func wantsCgroup(d driver.Driver) bool { return d.Info().Capabilities.HostCgroup != "" }

func checkHostCgroup(b *bench) {
	if b.subject.Foreign {
		b.t.Skipf("plugins built for Nomad expect cgroups that only an agent makes")
	}
	c := b.cgroup()
	defer b.removeCgroup(c)
	config := b.task(forever)
	config.Cgroup = c
	b.startConfig(b.ctx, config)
	b.running(config.ID, "after its start")
	for _, dir := range c.Dirs {
		pids, err := members(dir)
		if err != nil || len(pids) == 0 {
			b.t.Errorf("no process of the task is in %s, %v; start its processes with Cgroup.Start", dir, err)
		}
	}
	if err := b.d.DestroyTask(b.ctx, config.Ref(), true); err != nil {
		b.t.Fatalf("DestroyTask with force: %v", err)
	}
}

// cgroup makes a cgroup as a host does.
func (b *bench) cgroup() *driver.Cgroup {
	const root = "/sys/fs/cgroup"
	name := fmt.Sprintf("drover-check-%d-%d", os.Getpid(), sequence.Add(1))
	c := &driver.Cgroup{Version: 1, Dirs: map[string]string{}}
	for _, controller := range []string{"freezer", "cpu", "memory"} {
		c.Dirs[controller] = filepath.Join(root, controller, name)
	}
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		c.Version, c.Dirs = 2, map[string]string{"memory": filepath.Join(root, name), "freezer": filepath.Join(root, name)}
	}
	for _, dir := range c.Dirs {
		if err := os.Mkdir(dir, 0o755); err != nil {
			b.removeCgroup(c)
			b.t.Skipf("no cgroup can be made here: %v", err)
		}
	}
	return c
}

// removeCgroup kills what is left in a cgroup and removes it.
func (b *bench) removeCgroup(c *driver.Cgroup) {
	for _, dir := range c.Dirs {
		b.eventually(dir+" is empty and can be removed", func() bool {
			pids, _ := members(dir)
			for _, pid := range pids {
				if p, err := os.FindProcess(pid); err == nil && pid != os.Getpid() {
					_ = p.Signal(syscall.SIGKILL) // it may have ended
				}
			}
			err := os.Remove(dir)
			return err == nil || os.IsNotExist(err)
		})
	}
}

// members are the processes in a cgroup.
func members(dir string) (pids []int, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	for _, field := range strings.Fields(string(raw)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}
