// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The agent may run a plugin in a cgroup with limits, below pluginGroups. The
// supervisor and its tasks must not be subject to the plugin's limits, so they move
// to ownGroup beside it, which has none.
const (
	pluginGroups = "/drover-plugins/"
	ownGroup     = "drover-supervisor"
)

// leavePluginGroup moves this process out of the plugin's cgroups. It must be called
// before it has children.
func leavePluginGroup() error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("look for cgroups: %w", err)
	}
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return fmt.Errorf("look for cgroups: %w", err)
	}
	for _, dir := range outside(string(mounts), string(self)) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("leave the plugin's cgroup: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
			return fmt.Errorf("leave the plugin's cgroup: %w", err)
		}
	}
	return nil
}

// outside returns the cgroup directory to move to for each hierarchy in which we are
// in a plugin's cgroup.
func outside(mountinfo, self string) []string {
	var dirs []string
	for line := range strings.Lines(self) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if base, _, in := strings.Cut(parts[2], pluginGroups); in {
			if mount, root := hierarchy(mountinfo, parts[1]); mount != "" {
				dirs = append(dirs, filepath.Join(mount, strings.TrimPrefix(base, strings.TrimSuffix(root, "/")), ownGroup))
			}
		}
	}
	return dirs
}

// hierarchy returns the mount point of the hierarchy with some controllers and its
// root within the hierarchy. controllers "" means v2.
func hierarchy(mountinfo, controllers string) (mount, root string) {
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields, fs := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(fs) < 3 {
			continue
		}
		// v1 lists its controllers among the mount options: "rw,cpu,cpuacct".
		if controllers == "" && fs[0] == "cgroup2" ||
			controllers != "" && fs[0] == "cgroup" && strings.HasSuffix(","+fs[2], ","+controllers) {
			return fields[4], fields[3]
		}
	}
	return "", ""
}
