// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
)

// StartProgress is how far a driver has come with the start of a task, and when the node
// heard of it.
type StartProgress struct {
	driver.Progress
	At time.Time
}

// maxProgressText is how much of a plugin's texts in a progress is kept, in bytes.
const maxProgressText = 128

// noteProgress keeps the newest progress of a start. It is shown on request, and never
// stored or reported: a download has hundreds of them.
func (r *Runner) noteProgress(taskID string, p driver.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tasks[r.nameOf(taskID)]
	if t == nil || t.at.Step != StepDriver {
		return // a late one: the start has ended
	}
	t.at.Progress = nil
	if p.Phase == "" {
		return
	}
	p.Phase, p.Unit = model.CutText(p.Phase, maxProgressText), model.CutText(p.Unit, maxProgressText)
	p.Done, p.Total = max(p.Done, 0), max(p.Total, 0)
	if p.Total > 0 {
		p.Done = min(p.Done, p.Total)
	}
	t.at.Progress = &StartProgress{Progress: p, At: r.cfg.Now()}
}

// forgetProgress is for a start that begins again.
func (r *Runner) forgetProgress(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks[name].at.Progress = nil
}

// progress returns the progress of a start in words.
func (r *Runner) progress(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.tasks[name].at.Progress; p != nil {
		return p.String()
	}
	return ""
}

// nameOf returns the task that a driver knows by this id; "" if it is not the current run
// of any. r.mu is held.
func (r *Runner) nameOf(id string) string {
	for name, t := range r.tasks {
		if taskID(r.id, name, t.state.Run) == id {
			return name
		}
	}
	return ""
}
