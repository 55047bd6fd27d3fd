// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

var startChecks = []Check{
	{"start-race", "of two starts of one task at the same time one is refused", nil, checkStartRace},
	{"start-cancelled", "a start that is cancelled leaves nothing behind", nil, checkStartCancelled},
	{"user", "a task runs as the user that it asks for, or is refused, or the driver lists that it ignores it", nil, checkUser},
	{"mounts", "what TaskConfig.Mounts names is shown inside the task, read-only where it says so", canMount, checkMounts},
}

// canMount is false if tasks have no root file system of their own to mount into.
func canMount(d driver.Driver) bool {
	c := d.Info().Capabilities
	return c.MountConfigs && c.FSIsolation != driver.FSIsolationNone
}

func checkStartRace(b *bench) {
	config := b.task(forever)
	b.started = append(b.started, config.Ref())
	errs := make([]error, 4)
	var starts sync.WaitGroup
	for i := range errs {
		starts.Go(func() { _, _, errs[i] = b.d.StartTask(b.ctx, config) })
	}
	starts.Wait()
	started := 0
	for _, err := range errs {
		if err == nil {
			started++
			continue
		}
		b.refused("a start beside another of the same task", err, errdefs.AlreadyExists)
	}
	if started != 1 {
		b.t.Errorf("%d of %d starts of one task at the same time said that they started it, want 1", started, len(errs))
	}
	b.running(config.ID, "after several starts at the same time")
}

// beat is the script of a task that appends to a file in its local directory until it
// ends, each time with a line that identifies this run of the script.
const beat = `cd local 2>/dev/null || cd "$NOMAD_TASK_DIR"
read id 2>/dev/null </proc/sys/kernel/random/uuid || id=$$
while :; do echo $id >> beat; sleep 0.02; done`

// beats returns how many bytes a task has written to the file of beat.
func beats(config *driver.TaskConfig) int64 {
	info, err := os.Stat(filepath.Join(config.TaskDir, "local", "beat"))
	if err != nil {
		return 0
	}
	return info.Size()
}

// silent reports whether the task writes nothing for a while.
func silent(config *driver.TaskConfig) bool {
	return len(notSilent([]*driver.TaskConfig{config})) == 0
}

// checkStartCancelled cancels starts at several points and then destroys the task, as
// the host does: it cannot know how far the start got.
func checkStartCancelled(b *bench) {
	moments := []time.Duration{time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond, 125 * time.Millisecond}
	see := b.life(2 * len(moments)) // a start whose cancellation is not obeyed takes its whole time
	for _, after := range moments {
		config := b.task(see.script)
		b.started = append(b.started, config.Ref())
		ctx, cancel := context.WithTimeout(b.ctx, after)
		_, _, err := b.d.StartTask(ctx, config)
		cancel()
		if err == nil {
			b.makeRoom(config)
			continue // the start finished first
		}
		b.refused("a start whose context ended", err, errdefs.DeadlineExceeded, errdefs.Canceled, errdefs.Unavailable)
		b.eventually(fmt.Sprintf("nothing is left of a start that was cancelled after %s", after), func() bool {
			if err := b.d.DestroyTask(b.ctx, config.Ref(), true); err != nil {
				b.t.Fatalf("DestroyTask after a start that was cancelled: %v", err)
			}
			return len(see.alive([]*driver.TaskConfig{config})) == 0
		})
		b.eventually("the task can be started again, as what the cancelled start did is undone", func() bool {
			_, _, err := b.d.StartTask(b.ctx, config)
			if err != nil && !errdefs.IsAlreadyExists(err) {
				b.t.Fatalf("a start of the same task after one that was cancelled: %v", err)
			}
			return err == nil
		})
		b.makeRoom(config)
	}
}

func checkUser(b *bench) {
	if slices.Contains(b.d.Info().Capabilities.Ignores, driver.IgnoresUser) {
		b.t.Skipf("the driver says that it ignores the task's user")
	}
	config := b.task(fmt.Sprintf(`[ "$(id -u)" != %d ]`, os.Geteuid()))
	config.User = "nobody"
	b.started = append(b.started, config.Ref())
	if _, _, err := b.d.StartTask(b.ctx, config); err != nil {
		if errdefs.IsRetryable(err) && errdefs.IsInvalidArgument(err) {
			b.t.Errorf("the refusal of a user counts as retryable: %v", err)
		}
		return // the driver refused the user, or the task's image does not have it
	}
	if r := b.wait(config.ID); r.ExitCode == 1 {
		b.t.Errorf("a task of the user nobody runs as the user of the plugin; act on TaskConfig.User, refuse it, or list it in Capabilities.Ignores")
	}
}

func checkMounts(b *bench) {
	dir := b.t.TempDir()
	// #nosec: a task may run as another user
	if err := os.Chmod(dir, 0o755); err != nil {
		b.t.Fatalf("open the mount to the task: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("shown\n"), 0o644); err != nil {
		b.t.Fatalf("fill the mount: %v", err)
	}
	config := b.task(`[ "$(cat /drivertest/ro/file)" = shown ] || exit 3; [ "$(cat /drivertest/rw/file)" = shown ] || exit 4
echo x 2>/dev/null > /drivertest/ro/new && exit 5; exit 0`)
	config.Mounts = []driver.Mount{
		{HostPath: dir, TaskPath: "/drivertest/ro", ReadOnly: true},
		{HostPath: dir, TaskPath: "/drivertest/rw"},
	}
	b.startConfig(b.ctx, config)
	switch r := b.wait(config.ID); r.ExitCode {
	case 0:
	case 3, 4:
		b.t.Errorf("a mount of TaskConfig.Mounts is not shown in the task, though the driver says that it carries them out")
	case 5:
		b.t.Errorf("the task can write to a mount that is read-only")
	default:
		b.t.Errorf("result %+v", r)
	}
}
