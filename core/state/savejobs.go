// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// savedJob is a job whose versions refer to their groups by number. Versions of a job
// and children of a parent thereby share equal groups in memory and in the saved
// stream.
type savedJob struct {
	Row    *jobRow
	Groups [][]uint32 // by version
}

// jobs writes the jobs, and each distinct group once.
func (s *saver) jobs(t *table[jobRow]) {
	groups := newSharer[model.TaskGroup](recGroup)
	for row := range t.all("") {
		c := *row
		c.Versions = make([]*model.Job, len(row.Versions))
		saved := savedJob{Row: &c, Groups: make([][]uint32, len(row.Versions))}
		for i, job := range row.Versions {
			v := *job
			saved.Groups[i] = make([]uint32, len(job.TaskGroups))
			for k, tg := range job.TaskGroups {
				saved.Groups[i][k] = groups.number(s, tg)
			}
			v.TaskGroups = nil
			c.Versions[i] = &v
		}
		if s.record(recJobShared, &saved); s.err != nil {
			return
		}
	}
}

// job reads what jobs wrote.
func (l *loader) job(t *table[jobRow], data []byte) error {
	var saved savedJob
	if err := l.codec.Decode(data, &saved); err != nil {
		return err
	}
	if saved.Row == nil || len(saved.Row.Versions) == 0 || len(saved.Groups) != len(saved.Row.Versions) {
		return errdefs.InvalidArgumentf("a job without versions or groups is in the stream; the snapshot is damaged")
	}
	for i, job := range saved.Row.Versions {
		if job == nil {
			return errdefs.InvalidArgumentf("a version of job %q is missing; the snapshot is damaged", saved.Row.ID)
		}
		for _, n := range saved.Groups[i] {
			if n == 0 || int(n) > len(l.groups) {
				return errdefs.InvalidArgumentf("job %q refers to a group that is not in the stream; the snapshot is damaged", saved.Row.ID)
			}
			job.TaskGroups = append(job.TaskGroups, l.groups[n-1])
		}
	}
	t.put(saved.Row)
	return nil
}
