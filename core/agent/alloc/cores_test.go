// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// moved records the cores that the driver was told that a task shares.
type moved struct {
	mu  sync.Mutex
	all []string
}

func (m *moved) to(r driver.Resources) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, fmt.Sprint(r.SharedCores))
}

func (m *moved) check(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if got := fmt.Sprint(m.all); got != want {
		t.Fatalf("the task was told to share %s, want %s", got, want)
	}
}

// sharing runs a task without cores beside others that reserve and release some.
func sharing(b *bed) (*fakeCgroups, *moved) {
	c, m := newCgroups(b), &moved{}
	b.driver.onStart = func(_ context.Context, t *driver.TaskConfig) error { m.to(t.Resources); return nil }
	b.driver.onUpdate = func(_ string, r driver.Resources) error { m.to(r); return nil }
	return c, m
}

func TestATaskWithoutCoresLeavesThoseThatOthersReserve(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		c, m := sharing(b)
		b.run(sized(64))
		m.check(t, "[[]]")
		for _, x := range []struct {
			cores []int
			want  string
		}{
			{[]int{1}, "[[] [0 2 3]]"},
			{[]int{1}, "[[] [0 2 3]]"},
			{[]int{2, 3}, "[[] [0 2 3] [0 1]]"},
			{nil, "[[] [0 2 3] [0 1] [0 1 2 3]]"},
			{nil, "[[] [0 2 3] [0 1] [0 1 2 3]]"},
		} {
			c.Reserve("other", x.cores)
			b.r.ShareCores()
			m.check(t, x.want)
		}
		b.wants("web", "running")
		if b.r.View().TaskStates["web"].Restarts != 0 {
			t.Error("it was restarted")
		}
		for _, e := range b.r.View().TaskStates["web"].Events {
			if e.Type == "Resources Updated" {
				t.Error("an event says that it has other resources")
			}
		}
	})
}

func TestATaskStartsOnTheCoresThatAreFree(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		c, m := sharing(b)
		c.Reserve("other", []int{0})
		b.run(sized(64))
		m.check(t, "[[1 2 3]]")
	})
}

func TestATaskIsMovedForWhatWasReservedWhileTheAgentWasAway(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		c, m := sharing(b)
		b.run(sized(64))
		m.check(t, "[[]]")
		b.restart(func() { c.Reserve("other", []int{3}) })
		m.check(t, "[[] [0 1 2]]")
		b.restart(nil)
		m.check(t, "[[] [0 1 2]]")
		b.restart(func() { c.Reserve("other", nil) })
		m.check(t, "[[] [0 1 2] [0 1 2 3]]")
	})
}

func TestATaskWithCoresOfItsOwnIsNotMoved(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		c, m := sharing(b)
		a := sized(64)
		a.AllocatedResources.Tasks["web"].Cpu.ReservedCores = []uint16{2}
		b.run(a)
		m.check(t, "[[]]")
		c.Reserve("other", []int{1})
		b.r.ShareCores()
		m.check(t, "[[]]")
	})
}

func TestATaskThatCannotBeMovedRunsOn(t *testing.T) {
	for name, err := range map[string]error{
		"its driver cannot": errdefs.Unimplementedf("the fake cannot"), "the machine cannot": errdefs.FailedPreconditionf("no such core"),
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, b *bed) {
				c, m := sharing(b)
				b.driver.onUpdate = func(_ string, r driver.Resources) error { m.to(r); return err }
				b.run(sized(64))
				m.check(t, "[[]]")
				c.Reserve("other", []int{1})
				b.r.ShareCores()
				m.check(t, "[[] [0 2 3]]")
				b.r.ShareCores()
				m.check(t, "[[] [0 2 3]]")
				b.wants("web", "running")
				if b.r.View().TaskStates["web"].Restarts != 0 {
					t.Error("it was restarted")
				}
			})
		})
	}
}
