// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/agent/quota"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Disks limits directories; *quota.Disks does. See package quota.
type Disks interface {
	Limit(ctx context.Context, dir string, bytes int64) error
	Adopt(ctx context.Context, dir, into string) error
	Release(dir string)
}

// disk is what the alloc's directory takes, guarded by Runner.mu.
type disk struct {
	used quota.Usage
	over bool // its ephemeral disk is full, and an event has said so
	told bool // over is known
}

// buildDir makes the directory of the alloc and limits it to the size of the group's disk, if
// its file system can. Otherwise the node measures it.
func (r *Runner) buildDir(ctx context.Context) error {
	if err := r.dir.Build(); err != nil {
		return err
	}
	limit := r.diskLimit()
	if r.cfg.Disks == nil || limit == 0 {
		return nil
	}
	err := r.cfg.Disks.Limit(ctx, r.dir.Path, limit)
	if err != nil && !errdefs.IsUnimplemented(err) {
		r.logger.Warn("the disk of the alloc cannot be limited, so it is measured only", "error", err)
	}
	return ctx.Err()
}

// diskLimit is the size of the group's ephemeral disk in bytes; 0 means none.
func (r *Runner) diskLimit() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sizeOfDisk()
}

func (r *Runner) sizeOfDisk() int64 {
	if r.group.EphemeralDisk == nil {
		return 0
	}
	return int64(r.group.EphemeralDisk.SizeMB) * mebibyte
}

// adoptData makes the data of the alloc before count as this one's, so that it can be moved
// here.
func (r *Runner) adoptData(ctx context.Context, from allocdir.Dir, tasks []string) error {
	if r.cfg.Disks == nil {
		return nil
	}
	for _, folder := range allocdir.Movable(tasks) {
		if err := r.cfg.Disks.Adopt(ctx, filepath.Join(from.Path, folder), r.dir.Path); err != nil {
			return fmt.Errorf("take over %q of the alloc before: %w", folder, err)
		}
	}
	return nil
}

// Disk implements quota.Watched.
func (r *Runner) Disk() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.closed || r.sizeOfDisk() == 0 {
		return ""
	}
	return r.dir.Path
}

// DiskUsage returns what the alloc's directory took when it was last looked at, and the size
// of its ephemeral disk; ok is false before the first look.
func (r *Runner) DiskUsage() (used, size int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.disk.used.Bytes, r.sizeOfDisk(), r.disk.told && !r.ended
}

// Fractions of the ephemeral disk between which nothing is said, so that an alloc that writes
// and removes at its limit does not fill its events.
const (
	fullPercent  = 99 // of a disk that the file system limits, which never exceeds 100
	roomyPercent = 90
)

// NoteDisk implements quota.Watched: it says in an event of the tasks that their disk is
// full. Nothing is ended for that.
func (r *Runner) NoteDisk(u quota.Usage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := r.sizeOfDisk()
	if r.ended || r.closed || !r.begun || size == 0 {
		return
	}
	if !r.disk.told { // an earlier agent may have said it
		r.disk.told, r.disk.over = true, r.saidFull()
	}
	r.disk.used = u
	full := u.Bytes > size || u.Limit > 0 && u.Bytes >= size*fullPercent/100
	switch {
	case full && !r.disk.over:
		r.disk.over = true
		var e effects
		r.noteAll(eventDiskFull(u, size), &e)
		r.settle(&e)
	case u.Bytes < size*roomyPercent/100:
		r.disk.over = false
	}
}

// saidFull reports whether a task has an event about a full disk.
func (r *Runner) saidFull() bool {
	for _, t := range r.tasks {
		for _, ev := range t.state.Report.Events {
			if ev.Type == model.TaskDiskExceeded {
				return true
			}
		}
	}
	return false
}

func eventDiskFull(u quota.Usage, size int64) model.TaskEvent {
	text := fmt.Sprintf("The allocation takes %s of disk, more than the %s of its ephemeral_disk. This node measures disks and does not limit them; remove files, or raise size", bytesText(u.Bytes), bytesText(size))
	if u.Limit > 0 {
		text = fmt.Sprintf("The disk of the allocation is full: it takes %s, and its ephemeral_disk has %s. Writes fail until files are removed; otherwise raise size", bytesText(u.Bytes), bytesText(size))
	}
	return model.TaskEvent{
		Type: model.TaskDiskExceeded, Message: text, DisplayMessage: text, DiskLimit: size,
		Details: map[string]string{"disk_limit": strconv.FormatInt(size, 10), "disk_used": strconv.FormatInt(u.Bytes, 10)},
	}
}

var _ quota.Watched = (*Runner)(nil)
