// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"github.com/drover-project/drover/core/model"
)

// taskVolumes prints the volumes that a task of an alloc mounts.
func (s *session) taskVolumes(a *model.Allocation, name string) {
	if a.Job == nil {
		return
	}
	tg := a.Job.LookupTaskGroup(a.TaskGroup)
	if tg == nil {
		return
	}
	task := tg.LookupTask(name)
	if task == nil {
		return
	}
	rows := map[string][][]string{}
	for _, m := range task.VolumeMounts {
		if m == nil || tg.Volumes[m.Volume] == nil {
			continue
		}
		r, kind := tg.Volumes[m.Volume], "CSI"
		if r.IsHost() {
			kind = "Host"
		}
		rows[kind] = append(rows[kind], []string{r.VolumeName(a.Index()), text(r.ReadOnly || m.ReadOnly), m.Destination})
	}
	for _, kind := range []string{"Host", "CSI"} {
		if len(rows[kind]) > 0 {
			s.printf("%s Volumes:", kind)
			s.table([]string{"ID", "Read Only", "Destination"}, rows[kind])
			s.printf("")
		}
	}
}
