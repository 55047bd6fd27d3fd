// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/agent/task"
)

// ParseTaskID splits the id of a run of a task, as drivers know it. ok is false if the id
// does not have our form.
func ParseTaskID(id string) (allocID, name string, run uint64, ok bool) {
	allocID, rest, found := strings.Cut(id, "/")
	name, number, more := strings.Cut(rest, "/")
	run, err := strconv.ParseUint(number, 10, 64)
	return allocID, name, run, found && more && err == nil && allocID != "" && name != ""
}

// Owns reports whether a run of a task belongs to the alloc: it is being started, runs,
// its end has not been reported yet, or its driver is still destroying it. A run is
// recorded before its driver is asked to start it. So a task that a driver has and no
// alloc owns is left over, and is ended.
func (r *Runner) Owns(name string, run uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tasks[name]
	return t != nil && (t.state.Run == run && t.state.Phase != task.Dead || slices.Contains(t.freeing, run))
}
