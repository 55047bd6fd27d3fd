// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// checkpointChecks are the rules of driver.Checkpointer.
var checkpointChecks = []Check{
	{"checkpoint-restores", "a task that is restored goes on where its checkpoint was written, under another id, in a new process of the driver and more than once; the checkpoint is private and not changed by it", canCheckpoint, checkCheckpointRestores},
	{"checkpoint-holds", "a task is paused once its checkpoint is written, and goes on when it is resumed; what cannot be written or restored is refused with its class, and a refused task is as before", canCheckpoint, checkCheckpointHolds},
}

// canCheckpoint is the condition (Check.needs) of rules that read the output of a task
// before and after a checkpoint.
func canCheckpoint(d driver.Driver) bool { return has(driver.FeatureCheckpoint)(d) && canLog(d) }

// counted returns the first and the last whole number that a task has printed, or 0.
func counted(config *driver.TaskConfig) (first, last int) {
	body, err := os.ReadFile(config.Logs.StdoutPath + ".0")
	if err != nil {
		return 0, 0 // it has printed nothing yet
	}
	lines := strings.Split(string(body), "\n")
	for _, line := range lines[:len(lines)-1] { // the last one may be cut
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			continue
		}
		if last = n; first == 0 {
			first = n
		}
	}
	return first, last
}

// checkpoint writes a checkpoint of the task and returns its directory. A machine may lack
// what the driver needs for it.
func (b *bench) checkpoint(id string) string {
	dir := b.t.TempDir()
	err := b.d.(driver.Checkpointer).CheckpointTask(b.ctx, id, dir)
	if errdefs.IsFailedPrecondition(err) {
		b.t.Skipf("no checkpoint of a task can be written here: %v", err)
	}
	if err != nil {
		b.t.Fatalf("CheckpointTask: %v", err)
	}
	return dir
}

// written describes the files of a checkpoint, and records a problem if others may read one.
func (b *bench) written(dir string) string {
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			b.t.Errorf("the checkpoint's %s may be read by others (%s); it has the task's secrets", e.Name(), info.Mode())
		}
		out.WriteString(path + " " + strconv.FormatInt(info.Size(), 10) + " " + info.ModTime().String() + "\n")
		return nil
	})
	if err != nil {
		b.t.Fatalf("read the checkpoint: %v", err)
	}
	if out.Len() == 0 {
		b.t.Fatalf("CheckpointTask wrote nothing into its directory")
	}
	return out.String()
}

func checkCheckpointRestores(b *bench) {
	config, _, end := b.counting()
	defer end()
	dir := b.checkpoint(config.ID)
	before := b.written(dir)
	b.rest(settled) // until its last line has reached the file
	_, last := counted(config)
	if err := b.d.DestroyTask(b.ctx, config.Ref(), true); err != nil {
		b.t.Fatalf("DestroyTask of a task whose checkpoint was written, with force: %v", err)
	}
	b.reborn()
	for range 2 { // the second time as after a start whose answer was lost
		again := b.task(counter)
		again.Resources = config.Resources
		b.started = append(b.started, again.Ref())
		handle, _, err := b.d.(driver.Checkpointer).RestoreTask(b.ctx, again, dir)
		if err != nil {
			b.t.Fatalf("RestoreTask: %v", err)
		}
		if handle.TaskID != again.ID {
			b.t.Errorf("the handle is of task %q, want %q", handle.TaskID, again.ID)
		}
		b.paused(again.ID, "after RestoreTask", false)
		b.eventually("the restored task counts", func() bool { first, now := counted(again); return now > first })
		if first, _ := counted(again); first <= last-1 || first > last+2 {
			b.t.Errorf("the restored task began with %d, and before its checkpoint the task had counted to %d", first, last)
		}
		if err := b.d.DestroyTask(b.ctx, again.Ref(), true); err != nil {
			b.t.Errorf("DestroyTask of a restored task, with force: %v", err)
		}
	}
	if after := b.written(dir); after != before {
		b.t.Errorf("RestoreTask has changed the checkpoint; it was\n%sand is\n%s", before, after)
	}
}

func checkCheckpointHolds(b *bench) {
	c := b.d.(driver.Checkpointer)
	config, _, end := b.counting()
	defer end()
	b.checkpoint(config.ID)
	b.paused(config.ID, "after CheckpointTask", true)
	b.holds(config, "after its checkpoint was written")
	before := length(config)
	if err := c.ResumeTask(b.ctx, config.ID); err != nil {
		b.t.Errorf("ResumeTask of a task whose checkpoint was written: %v", err)
	}
	b.paused(config.ID, "after ResumeTask", false)
	b.eventually("the task counts on after ResumeTask", func() bool { return length(config) > before })

	if err := c.CheckpointTask(b.ctx, config.ID, filepath.Join(b.t.TempDir(), "missing")); err == nil {
		b.t.Errorf("CheckpointTask into a directory that is not there gave no error")
	}
	b.paused(config.ID, "after a checkpoint that failed", false)
	b.refused("a checkpoint of an unknown task", c.CheckpointTask(b.ctx, "no-such-task", b.t.TempDir()), errdefs.NotFound)
	empty := b.task(counter)
	b.started = append(b.started, empty.Ref())
	_, _, err := c.RestoreTask(b.ctx, empty, b.t.TempDir())
	b.refused("RestoreTask from an empty directory", err, errdefs.InvalidArgument)
	if _, err := b.d.InspectTask(b.ctx, empty.ID); !errdefs.IsNotFound(err) {
		b.t.Errorf("a restore that was refused left a task behind: %v", err)
	}
	if err := b.d.StopTask(b.ctx, config.ID, 0, "SIGKILL"); err != nil {
		b.t.Fatalf("StopTask: %v", err)
	}
	b.wait(config.ID)
	b.refused("a checkpoint of a task that has ended", c.CheckpointTask(b.ctx, config.ID, b.t.TempDir()), errdefs.FailedPrecondition)
}
