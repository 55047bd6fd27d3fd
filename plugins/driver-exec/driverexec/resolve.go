// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverexec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

// lookUp finds a command: by its absolute path, relative to the task's directory
// (local/ first), or by name in the task's PATH.
func lookUp(taskDir, command, pathVar string) (string, error) {
	if command == "" {
		return "", errors.New("the command is empty; name the program to run")
	}
	if filepath.IsAbs(command) {
		return command, executable(command)
	}
	tries := []string{filepath.Join(taskDir, "local", command), filepath.Join(taskDir, command)}
	if !strings.ContainsAny(command, `/\`) {
		for _, dir := range filepath.SplitList(pathVar) {
			if filepath.IsAbs(dir) {
				tries = append(tries, filepath.Join(dir, command))
			}
		}
	}
	for _, try := range tries {
		if executable(try) == nil {
			return try, nil
		}
		if runtime.GOOS == "windows" && executable(try+".exe") == nil {
			return try + ".exe", nil
		}
	}
	for _, try := range tries {
		if err := executable(try); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return "", err
		}
	}
	return "", noCommand(errdefs.InvalidArgumentf("there is no executable file %q in the task's directory %s or in its PATH %q; fetch it with an artifact, or give an absolute path", command, taskDir, pathVar))
}

// noCommand adds the reason code of a missing command.
func noCommand(err error) error { return errdefs.WithReason(err, "command_not_found") }

func executable(file string) error {
	st, err := os.Stat(file)
	switch {
	case err != nil:
		return noCommand(errdefs.InvalidArgumentf("there is no such program: %w", err))
	case st.IsDir():
		return fmt.Errorf("%s is a directory; use a program in it", file)
	case runtime.GOOS != "windows" && st.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not executable; set its mode, for example with perms = \"755\" in its template", file)
	}
	return nil
}

// ranges is a list of id ranges, such as 0,10-20.
type ranges [][2]uint64

func parseRanges(text string) (ranges, error) {
	var out ranges
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		lo, err := strconv.ParseUint(strings.TrimSpace(from), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is neither an id nor a range of ids: %w", part, err)
		}
		hi, err := strconv.ParseUint(strings.TrimSpace(to), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is neither an id nor a range of ids: %w", part, err)
		}
		if hi < lo {
			return nil, fmt.Errorf("%q ends before it begins", part)
		}
		out = append(out, [2]uint64{lo, hi})
	}
	return out, nil
}

func (r ranges) has(id uint32) bool {
	return slices.ContainsFunc(r, func(x [2]uint64) bool { return x[0] <= uint64(id) && uint64(id) <= x[1] })
}

// deniedUsers is the part of the agent config that lists users that tasks must not
// run as. All drivers of this plugin share it.
type deniedUsers struct {
	DeniedHostUIDs string `json:"denied_host_uids"`
	DeniedHostGIDs string `json:"denied_host_gids"`

	uids, gids ranges
}

func deniedUsersSchema() []schema.Attribute {
	return []schema.Attribute{
		{Name: "denied_host_uids", Type: schema.String, Description: "user ids that tasks may not run as, such as 0,10-20"},
		{Name: "denied_host_gids", Type: schema.String, Description: "group ids that tasks may not run with, such as 0,10-20"},
	}
}

// parse parses the configured ranges.
func (c *deniedUsers) parse() (err error) {
	if c.uids, err = parseRanges(c.DeniedHostUIDs); err != nil {
		return errdefs.InvalidArgumentf("denied_host_uids: %w", err)
	}
	if c.gids, err = parseRanges(c.DeniedHostGIDs); err != nil {
		return errdefs.InvalidArgumentf("denied_host_gids: %w", err)
	}
	return nil
}

// allow checks the user of a task; nil means the agent's user.
func (c *deniedUsers) allow(u *supervisor.User) error {
	if u == nil {
		if os.Getuid() < 0 {
			return nil // this system has no numeric user ids
		}
		u = &supervisor.User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	}
	if c.uids.has(u.UID) {
		return fmt.Errorf("user id %d is in the agent's denied_host_uids; run the task as another user", u.UID)
	}
	for _, gid := range append([]uint32{u.GID}, u.Groups...) {
		if c.gids.has(gid) {
			return fmt.Errorf("group id %d is in the agent's denied_host_gids; run the task as another user", gid)
		}
	}
	return nil
}

// cgroupMount is the mount point of the cgroup file system.
const cgroupMount = "/sys/fs/cgroup"

// unifiedMount returns the mount point of cgroup v2. On a hybrid machine it is
// beside the v1 hierarchies.
func unifiedMount() string {
	const hybrid = cgroupMount + "/unified"
	if _, err := os.Stat(hybrid + "/cgroup.procs"); err == nil {
		return hybrid
	}
	return cgroupMount
}

// overrides returns the cgroups that the config selects.
func overrides(c taskConfig) ([]string, error) {
	var dirs []string
	add := func(root, name string) error {
		dir := filepath.Clean(name)
		if !strings.HasPrefix(dir, cgroupMount+"/") { // the form of /proc/PID/cgroup, with or without the leading slash
			dir = filepath.Join(root, name)
		}
		if !strings.HasPrefix(dir, root+"/") && !strings.HasPrefix(name, cgroupMount+"/") {
			return fmt.Errorf("cgroup %q is not below %s", name, root)
		}
		dirs = append(dirs, dir)
		return nil
	}
	if c.CgroupV2Override != "" {
		if err := add(unifiedMount(), c.CgroupV2Override); err != nil {
			return nil, fmt.Errorf("config.cgroup_v2_override: %w", err)
		}
	}
	for _, m := range c.CgroupV1Override {
		for controller, name := range m {
			if _, err := os.Stat(filepath.Join(cgroupMount, filepath.Base(controller), "cgroup.procs")); err != nil {
				return nil, fmt.Errorf("config.cgroup_v1_override: this machine has no controller %q of cgroup version 1: %w", controller, err)
			}
			if err := add(filepath.Join(cgroupMount, filepath.Base(controller)), name); err != nil {
				return nil, fmt.Errorf("config.cgroup_v1_override: %w", err)
			}
		}
	}
	slices.Sort(dirs)
	return dirs, nil
}
