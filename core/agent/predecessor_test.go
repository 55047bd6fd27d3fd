// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent_test

import "testing"

func TestAReplacementBeginsOnceTheAllocBeforeItHasEndedAlsoAfterARestartOfTheAgent(t *testing.T) {
	b := newBed(t)
	first := newAlloc("a1", newTask("web"))
	b.servers.assign(first)
	b.status("a1", "running")
	for _, id := range []string{"a2", "a3"} { // each replaces the one before it
		next := newAlloc(id, newTask("web"))
		next.PreviousAllocation = map[string]string{"a2": "a1", "a3": "a2"}[id]
		b.servers.assign(next)
		b.eventually("the node has "+id, func() bool { return b.agent.HasAlloc(id) })
	}
	b.again()
	b.eventually("the next agent has all of them", func() bool { return len(b.agent.Allocs()) == 3 })
	b.servers.assign(stopped(first))
	b.status("a1", "complete")
	b.status("a2", "running")
	if got := len(b.driver.started()); got != 2 {
		t.Errorf("%d tasks were started: %v", got, b.driver.started())
	}
	// One that is stopped while it waits never starts, and lets nobody wait for it.
	waits := newAlloc("a3", newTask("web"))
	waits.PreviousAllocation = "a2"
	b.servers.assign(stopped(waits))
	b.status("a3", "complete")
	if got := b.servers.report("a3").ClientDescription; got != "The allocation was stopped before it was started" {
		t.Errorf("it says %q", got)
	}
	if got := len(b.driver.started()); got != 2 {
		t.Errorf("%d tasks were started: %v", got, b.driver.started())
	}
}
