// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// updateChecks are the rules of driver.Updater.
var updateChecks = []Check{
	{"update-running", "a task that gets other resources runs on, also when it gets the same again and in a process that has recovered it", has(driver.FeatureUpdateResources), checkUpdateRunning},
	{"update-refused", "a task that uses more memory than it would get is not killed, and one that has ended or is unknown is refused", canBeRefused, checkUpdateRefused},
}

// canBeRefused is the condition (Check.needs) of rules that read the output of a task.
func canBeRefused(d driver.Driver) bool { return has(driver.FeatureUpdateResources)(d) && canLog(d) }

// update gives the task other memory.
func (b *bench) update(id string, memoryMB int64) error {
	return b.d.(driver.Updater).UpdateTask(b.ctx, id, driver.Resources{CPUMHz: 2 * memoryMB, CPUPercent: 2, MemoryMB: memoryMB})
}

func checkUpdateRunning(b *bench) {
	config, handle := b.start(forever)
	before, err := b.d.InspectTask(b.ctx, config.ID)
	if err != nil {
		b.t.Fatalf("InspectTask: %v", err)
	}
	for _, memory := range []int64{128, 128, 96} {
		if err := b.update(config.ID, memory); err != nil {
			b.t.Fatalf("UpdateTask to %d MiB: %v", memory, err)
		}
	}
	b.reborn()
	if err := b.d.RecoverTask(b.ctx, handle); err != nil {
		b.t.Fatalf("RecoverTask in a new process: %v", err)
	}
	if err := b.update(config.ID, 112); err != nil {
		b.t.Errorf("UpdateTask of a recovered task: %v", err)
	}
	b.running(config.ID, "after its updates")
	if after, err := b.d.InspectTask(b.ctx, config.ID); err == nil && !after.StartedAt.Equal(before.StartedAt) {
		b.t.Errorf("the task was started again: first at %s, then at %s", before.StartedAt, after.StartedAt)
	}
}

// hog is a script that keeps about 30 MB of memory, says so, and runs until it is stopped.
const hog = `x=$(head -c 30000000 /dev/zero | tr '\0' x); echo holds ${#x}; while :; do sleep 1; done`

func checkUpdateRefused(b *bench) {
	config := b.task(hog)
	config.Resources.MemoryMB = 256
	b.startConfig(b.ctx, config)
	b.eventually("the task prints that it holds its memory", printed(config.Logs.StdoutPath+".0", "holds 30000000"))
	// A driver that limits no memory may carry it out.
	if err := b.update(config.ID, 8); err != nil {
		b.refused("less memory than the task uses", err, errdefs.FailedPrecondition)
	}
	b.running(config.ID, "after less memory than it uses was asked for")
	if err := b.d.StopTask(b.ctx, config.ID, 0, ""); err != nil {
		b.t.Fatalf("StopTask: %v", err)
	}
	b.wait(config.ID)
	b.refused("the resources of a task that has ended", b.update(config.ID, 64), errdefs.FailedPrecondition)
	b.refused("the resources of an unknown task", b.update("no-such-task", 64), errdefs.NotFound)
}
