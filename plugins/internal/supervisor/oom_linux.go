// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import "github.com/drover-project/drover/plugins/internal/cgroup"

// isolatedGroups returns the machine's cgroups if any of the tasks is isolated.
func isolatedGroups(tasks []Status) *cgroup.Cgroups {
	for i := range tasks {
		if tasks[i].Group != "" {
			groups, err := cgroup.FindCgroups()
			if err != nil {
				return nil // they are then measured like other tasks
			}
			return groups
		}
	}
	return nil
}

// OOMKills returns for each isolated task the number of its processes that the OOM
// killer has killed. Tasks without any are absent.
func OOMKills(tasks []Status) map[string]uint64 {
	groups := isolatedGroups(tasks)
	if groups == nil {
		return nil
	}
	out := map[string]uint64{}
	for i := range tasks {
		if t := &tasks[i]; t.Group != "" && t.Exit == nil {
			if n := groups.Open(t.Group).OOMKills(); n > 0 {
				out[t.ID] = n
			}
		}
	}
	return out
}
