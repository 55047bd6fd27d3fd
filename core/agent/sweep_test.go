// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent_test

import "testing"

func TestATaskThatNoAllocOwnsIsEndedAndThoseOfAllocsGoOn(t *testing.T) {
	b := newBed(t)
	b.servers.assign(newAlloc("a1", newTask("web")))
	b.status("a1", "running")
	// What was begun and given up before the agent was restarted.
	ghosts := []string{"gone/web/1", "a1/web/0", "a1/web/2", "a1/other/1"}
	for _, id := range ghosts {
		b.driver.haunt(id, "ghost")
	}
	foreign := []string{"somebody else's", "a1/web", "a1/web/x"}
	for _, id := range foreign {
		b.driver.haunt(id, "foreign")
	}
	b.close()
	b.start()
	for _, id := range ghosts {
		b.eventually("the ghost "+id+" is ended", func() bool { return !b.driver.has(id) })
	}
	b.status("a1", "running")
	if !b.driver.has("a1/web/1") || len(b.driver.started()) != 1 {
		t.Errorf("the task of the alloc was touched; starts %v", b.driver.started())
	}
	for _, id := range foreign {
		if !b.driver.has(id) {
			t.Errorf("the task %q, which has no name of ours, was ended", id)
		}
	}
	// While the agent runs, too: when a driver's process comes, as after a kill.
	b.driver.haunt("late/web/1", "ghost")
	b.driver.upgrade("1.0.1", "loud")
	b.eventually("the late ghost is ended", func() bool { return !b.driver.has("late/web/1") })
}
