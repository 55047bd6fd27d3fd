// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// processChecks are the rules of driver.ProcessMeter.
var processChecks = []Check{
	{"process-stats", "a driver that measures single processes finds those that a task has started, and none once it has ended", has(driver.FeatureProcessStats), checkProcessStats},
}

func checkProcessStats(b *bench) {
	config, _ := b.start("sleep 600 & sleep 600 & wait")
	m := b.d.(driver.ProcessMeter)
	var found map[string]driver.PidStats
	b.eventually("the script and the two programs that it started are found", func() bool {
		var err error
		if found, err = m.ProcessStats(b.ctx, config.ID); err != nil {
			b.t.Fatalf("ProcessStats: %v", err)
		}
		return len(found) >= 3
	})
	for pid, u := range found {
		checkUsage(b, "process "+pid, u.CPU, u.Memory)
		if len(u.CPU.Measured)+len(u.Memory.Measured) == 0 {
			b.t.Errorf("nothing is measured of process %s", pid)
		}
	}
	if err := b.d.StopTask(b.ctx, config.ID, 0, ""); err != nil {
		b.t.Fatalf("StopTask: %v", err)
	}
	if found, err := m.ProcessStats(b.ctx, config.ID); err != nil || len(found) > 0 {
		b.t.Errorf("of a task that has ended: %d processes, %v", len(found), err)
	}
	_, err := m.ProcessStats(b.ctx, "no-such-task")
	b.refused("the processes of an unknown task", err, errdefs.NotFound)
}
