// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"

	pb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/driver"
)

// roots are the root file systems that the host has made for the tasks of a driver. All
// runs of a task have the same folder, and the end of a run may come after the next one
// has started: only the folder's newest run removes the root.
type roots struct {
	host   Roots
	wanted bool

	mu    sync.Mutex
	owner map[string]string // id of a task, by folder
}

// build makes the root of a task, if the driver wants one.
func (r *roots) build(ctx context.Context, task *TaskConfig) error {
	if !r.wanted {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.host.Build(ctx, task.TaskDir); err != nil {
		return fmt.Errorf("build the root file system of task %s: %w", task.Name, err)
	}
	r.own(task.TaskDir, task.ID)
	return nil
}

// own notes who has a folder; r.mu is held.
func (r *roots) own(dir, id string) {
	if r.owner == nil {
		r.owner = map[string]string{}
	}
	r.owner[dir] = id
}

// recover notes a task that an earlier process has started. Its root is still there, since
// mounts outlive the agent.
func (r *roots) recover(id string, config *pb.TaskConfig) {
	if !r.wanted || config.GetAllocDir() == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own(filepath.Join(config.GetAllocDir(), config.GetName()), id)
}

// remove removes the root of a task that has ended.
func (r *roots) remove(ref TaskRef) error {
	if !r.wanted || ref.TaskDir == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if id, owned := r.owner[ref.TaskDir]; owned && id != ref.ID {
		return nil
	}
	delete(r.owner, ref.TaskDir)
	if err := r.host.Remove(ref.TaskDir); err != nil {
		return fmt.Errorf("remove the root file system of task %s: %w", ref.ID, err)
	}
	return nil
}
