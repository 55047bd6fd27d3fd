// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// listChecks are the rules of driver.Lister.
var listChecks = []Check{
	{"list-tasks", "a driver that lists its tasks lists those that an earlier process started, with handles by which they are recovered, until they are destroyed", has(driver.FeatureListTasks), checkListTasks},
}

func checkListTasks(b *bench) {
	config, _ := b.start(forever)
	b.reborn()
	listed := b.listed(config.ID)
	if listed == nil {
		b.t.Fatalf("a fresh process does not list the task that runs")
	}
	if len(listed.State) > 0 {
		if err := b.d.RecoverTask(b.ctx, listed); err != nil {
			b.t.Errorf("RecoverTask with the handle that was listed: %v", err)
		}
	}
	if err := b.d.DestroyTask(b.ctx, config.Ref(), true); err != nil {
		b.t.Fatalf("DestroyTask with force: %v", err)
	}
	if b.listed(config.ID) != nil {
		b.t.Errorf("the task is listed after it was destroyed")
	}
}

// listed returns the handle of a task in the driver's list; nil if it is not there.
func (b *bench) listed(id string) *driver.Handle {
	list, err := b.d.(driver.Lister).ListTasks(b.ctx)
	if err != nil {
		b.t.Fatalf("ListTasks: %v", err)
	}
	for _, h := range list {
		if h.TaskID == id {
			return h
		}
	}
	return nil
}
